// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec.kernel and the optimizer to llvm.func, as functions for the conversion
// of exec and as a pass to look at kernels alone.

#include "shardonnx/Codegen/CPU/LowerKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Codegen/Kernel/VectorMath.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Object/Object.h"

namespace shardonnx {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "shardonnx/Codegen/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

KernelTarget kernels::kernelTargetOf(const TargetSpec &target) {
  KernelTarget result;
  result.lanes = target.lanes();
  result.registers = target.vectorBits == 512 ? 32 : 16;
  result.nativeBF16 = target.nativeBF16;
  return result;
}

/// math.exp, tanh, erf, log, sin, cos and rsqrt on f32 vectors by polynomials,
/// within 2 units in the last place.
static void expandMath(LLVM::LLVMFuncOp function) {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
        floatVectorOf(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder b(op);
    Value result = VectorMath(b, op->getLoc(), floatVectorOf(op)).expand(op);
    if (!result)
      continue;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}

LogicalResult kernels::lowerKernel(LLVM::LLVMFuncOp function) {
  expandMath(function);
  return convertKernel(function);
}

/// Loads what the emitters create ops of.
static void loadDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                      LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                      vector::VectorDialect>();
}

LogicalResult kernels::lowerKernels(ModuleOp module, const TargetSpec &target,
                                    llvm::StringMap<KernelLaunch> &launches) {
  loadDialects(*module.getContext());
  KernelTarget kernelTarget = kernelTargetOf(target);
  for (auto op : llvm::make_early_inc_range(module.getOps<exec::KernelOp>())) {
    FailureOr<Kernel> kernel = describeKernel(op);
    if (failed(kernel))
      return op.emitOpError("has operand types that do not fit its domain");
    if (kernel->getMode() == Kernel::Mode::Rows &&
        !kernel->getColumnSums().empty())
      return op.emitOpError("sums its rows beside other results, which kernels "
                            "of GPUs do");
    if (!kernel->getTensorSteps().empty())
      return op.emitOpError("takes a step of whole tensors, which kernels of "
                            "GPUs do");
    launches[op.getSymName()] = kernel->getLaunch();
    OpBuilder builder(op);
    LLVM::LLVMFuncOp function = emitKernel(
        builder, op.getLoc(), op.getSymName(), *kernel, kernelTarget);
    op.erase();
    if (failed(lowerKernel(function)))
      return failure();
  }
  return success();
}

LogicalResult kernels::addOptimizerKernel(ModuleOp module, StringRef name,
                                          const OptimizerTypes &types,
                                          const TargetSpec &target) {
  loadDialects(*module.getContext());
  FailureOr<OptimizerKernel> built =
      buildOptimizerKernel(module.getContext(), module.getLoc(), types);
  if (failed(built))
    return failure();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  return lowerKernel(emitKernel(builder, module.getLoc(), name, built->kernel,
                                kernelTargetOf(target)));
}

namespace {

struct LowerKernelsPass
    : shardonnx::impl::LowerKernelsPassBase<LowerKernelsPass> {
  using LowerKernelsPassBase::LowerKernelsPassBase;

  void runOnOperation() override {
    llvm::Expected<TargetSpec> target = resolveTarget(arch);
    if (!target) {
      getOperation().emitError(llvm::toString(target.takeError()));
      return signalPassFailure();
    }
    llvm::StringMap<KernelLaunch> launches;
    if (failed(lowerKernels(getOperation(), *target, launches)))
      signalPassFailure();
  }
};

} // namespace
