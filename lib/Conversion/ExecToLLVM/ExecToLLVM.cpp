// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-to-llvm: kernels, the optimizer, the functions of the step, the
// manifest.

#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "FunctionLowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Codegen/CPU/LowerKernels.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Support/ElementType.h"
#include "shardonnx/Support/OtherFile.h"
#include "shardonnx/Support/SpelledOption.h"
#include "shardonnx/runtime/MasterHalves.h"

namespace shardonnx {
#define GEN_PASS_DEF_EXECTOLLVMPASS
#include "shardonnx/Conversion/ExecToLLVM/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;
using kernels::OptimizerPart;

std::string shardonnx::optimizerKernelName(ShxDType paramType,
                                           OptimizerPart part) {
  std::string name = part == OptimizerPart::MuonMomentum ? "shx_muon_momentum"
                     : part == OptimizerPart::MuonStep ? "shx_muon_step"
                                                       : "shx_optimizer_kernel";
  return paramType == SHX_F32 ? name : name + "_" + spell(paramType);
}

std::vector<ShxDType> shardonnx::paramTypesOf(ModuleOp module) {
  std::vector<ShxDType> types;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    ShxDType type = dtypeOf(unit.getParamDtype());
    if (!llvm::is_contained(types, type))
      types.push_back(type);
  }
  return types;
}

/// What the units of a type are gathered in.
static SmallVector<GatherDtype> gatherTypesOf(ModuleOp module, ShxDType param,
                                              GatherDtype asked) {
  SmallVector<GatherDtype> types;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    if (dtypeOf(unit.getParamDtype()) == param)
      types.push_back(
          nn::unitChoice(unit, unit.getSymName(), nn::kGatherDtypeKey, asked));
  }
  return types;
}

// One kernel serves all units of a type: where some gather what the kernel
// rounds and others do not, it rounds for all, and those round anew.
UpdateTypes shardonnx::kernelTypesOf(ModuleOp module, ShxDType param,
                                     UpdateTypes types) {
  bool first = true;
  for (GatherDtype own : gatherTypesOf(module, param, types.gather)) {
    if (first || gatherTypeOf(own, param) == GatherDtype::Param)
      types.gather = own;
    first = false;
  }
  return types;
}

kernels::OptimizerTypes
shardonnx::deviceOptimizerTypes(ModuleOp module, Optimizer optimizer,
                                ShxDType param, const UpdateTypes &types,
                                OptimizerPart part) {
  kernels::OptimizerTypes result = kernels::optimizerTypes(
      optimizer, param, kernelTypesOf(module, param, types), part);
  result.halves = keepsMasterHalves(
      result.master, param,
      llvm::all_of(gatherTypesOf(module, param, types.gather),
                   [&](GatherDtype own) {
                     return gatherTypeOf(own, param) == GatherDtype::Param;
                   }));
  return result;
}

SmallVector<OptimizerPart> shardonnx::optimizerPartsOf(ModuleOp module) {
  SmallVector<OptimizerPart> parts = {OptimizerPart::Elements};
  if (llvm::any_of(module.getOps<fsdp::UnitOp>(),
                   [](fsdp::UnitOp u) { return u.getMatrixLength() > 0; }))
    parts.append({OptimizerPart::MuonMomentum, OptimizerPart::MuonStep});
  return parts;
}

static LogicalResult addOptimizerKernels(ModuleOp module,
                                         const LoweringOptions &options) {
  for (ShxDType type : paramTypesOf(module))
    for (OptimizerPart part : optimizerPartsOf(module))
      if (failed(kernels::addOptimizerKernel(
              module, optimizerKernelName(type, part),
              kernels::optimizerTypes(
                  *options.optimizer, type,
                  kernelTypesOf(module, type, options.types), part),
              options.target)))
        return failure();
  return success();
}

// What the runtime calls, by the function of the step that it is.
static std::pair<StringRef, StringRef> entryPoints[] = {
    {fsdp::kFirstMicrobatch, "shx_first_microbatch"},
    {fsdp::kNextMicrobatch, "shx_next_microbatch"},
    {fsdp::kUpdate, "shx_update"},
    {fsdp::kEval, "shx_eval_microbatch"}};

static LogicalResult lowerFunctions(ModuleOp module, ProgramSymbols &symbols) {
  for (func::FuncOp function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    auto entry = llvm::find_if(entryPoints, [&](auto &pair) {
      return pair.first == function.getSymName();
    });
    if (entry == std::end(entryPoints))
      return function.emitError("is no function of a step");
    if (failed(lowerFunction(function, entry->second, symbols)))
      return failure();
  }
  return success();
}

// The manifest and its size, in a section that tools find without running.
static void addManifest(ModuleOp module, StringRef manifest) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), manifest.size());
  auto text = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                                     LLVM::Linkage::External, "shx_manifest",
                                     builder.getStringAttr(manifest));
  text.setSection(kManifestSection);
  LLVM::GlobalOp::create(builder, loc, builder.getI64Type(),
                         /*isConstant=*/true, LLVM::Linkage::External,
                         "shx_manifest_size",
                         builder.getI64IntegerAttr(int64_t(manifest.size())));
}

LogicalResult shardonnx::lowerToLLVM(ModuleOp module,
                                     const LoweringOptions &options) {
  module.getContext()->loadDialect<LLVM::LLVMDialect>();
  ProgramSymbols symbols(module);
  symbols.device = options.device;
  if (!options.device) {
    if (failed(kernels::lowerKernels(module, options.target, symbols.launches)))
      return failure();
    if (options.optimizer && failed(addOptimizerKernels(module, options)))
      return failure();
  }
  // Their names are of no concern to the runtime's.
  for (auto kernel : module.getOps<LLVM::LLVMFuncOp>())
    kernel.setLinkage(LLVM::Linkage::Internal);
  if (failed(lowerFunctions(module, symbols)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (!isa<LLVM::LLVMDialect>(op.getDialect()))
      op.erase();
  addManifest(module, options.manifest);
  if (options.device)
    symbols.addDeviceSymbols();
  return success();
}

namespace {

struct ExecToLLVMPass : shardonnx::impl::ExecToLLVMPassBase<ExecToLLVMPass> {
  using ExecToLLVMPassBase::ExecToLLVMPassBase;

  void runOnOperation() override {
    llvm::Expected<TargetSpec> target = resolveTarget(arch);
    if (!target) {
      getOperation().emitError(llvm::toString(target.takeError()));
      return signalPassFailure();
    }
    if (failed(
            lowerToLLVM(getOperation(),
                        {std::move(*target), optimizer.getValue(), {}, "{}"})))
      signalPassFailure();
  }
};

} // namespace
