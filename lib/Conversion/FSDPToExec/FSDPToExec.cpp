// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-to-exec: function by function, then the graph's inputs.

#include "Emitter.h"
#include "shardonnx/Conversion/FSDPToExec/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Support/SpelledOption.h"
#include "llvm/ADT/StringSet.h"

namespace shardonnx {
#define GEN_PASS_DEF_FSDPTOEXECPASS
#include "shardonnx/Conversion/FSDPToExec/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

namespace {

class FSDPToExec : public shardonnx::impl::FSDPToExecPassBase<FSDPToExec> {
public:
  using FSDPToExecPassBase::FSDPToExecPassBase;
  void runOnOperation() override;

private:
  LogicalResult collectInputs();
  void collectOutputs(func::FuncOp function);
  void emitInputs();

  struct Input {
    std::string name, kind; // kind empty: from how it is used
    Type type;
  };
  SmallVector<Input> inputs;
  SmallVector<InputUse> uses;
};

} // namespace

// The functions of a step read the same inputs; @update reads none.
LogicalResult FSDPToExec::collectInputs() {
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    unsigned count = function.getNumArguments();
    if (count + function.getNumResults() == 0)
      continue;
    bool known = !inputs.empty();
    if (known && (count != inputs.size() || function.getNumResults() != 0))
      return function.emitError("reads other inputs than the functions before");
    for (unsigned i = 0; i < count; ++i) {
      Type type = function.getArgument(i).getType();
      if (known && inputs[i].type != type)
        return function.emitError("input #")
               << i << " is " << type << ", was " << inputs[i].type;
      if (known)
        continue;
      auto name = function.getArgAttrOfType<StringAttr>(i, "nn.name");
      auto kind = function.getArgAttrOfType<StringAttr>(i, "nn.kind");
      inputs.push_back({name ? name.str() : "input" + std::to_string(i),
                        kind ? kind.str() : "", type});
    }
    collectOutputs(function);
  }
  uses.resize(inputs.size());
  return success();
}

// What a function returns, it writes into memory that it is given: behind its
// inputs.
void FSDPToExec::collectOutputs(func::FuncOp function) {
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto name = function.getResultAttrOfType<StringAttr>(i, "nn.name");
    inputs.push_back({name ? name.str() : "output" + std::to_string(i),
                      exec::kOutputKind.str(), type});
  }
}

// What the runtime fills an input with: by its kind if that was said, else by
// its use, else by the names that every exporter gives.
static StringRef kindOf(StringRef kind, StringRef name, const InputUse &use) {
  if (!kind.empty())
    return kind;
  if (use.labels)
    return "labels";
  if (name.ends_with("attention_mask"))
    return "attention_mask";
  if (name == "position_ids" || name == "token_type_ids")
    return name;
  return use.tokens ? "tokens" : "data";
}

void FSDPToExec::emitInputs() {
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  for (auto [index, input] : llvm::enumerate(inputs))
    exec::InputOp::create(builder, getOperation().getLoc(), index, input.name,
                          kindOf(input.kind, input.name, uses[index]),
                          uses[index].limit, input.type);
}

// What GPUs do not do, or do in another way than a user may think: a remark is
// made once.
static LogicalResult checkCudaCalls(ModuleOp module) {
  llvm::StringSet<> made;
  WalkResult result = module.walk([&](exec::RuntimeCallOpInterface call) {
    if (!call.runsOnCuda()) {
      call->emitError("has no kernel for GPUs; compile with --target=cpu");
      return WalkResult::interrupt();
    }
    std::string remark = call.getCudaRemark();
    if (!remark.empty() && made.insert(remark).second)
      call->emitRemark(remark);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void FSDPToExec::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(collectInputs()))
    return signalPassFailure();
  ParameterPlaces parameters = placeParameters(module);
  KernelCache kernels(module);
  bool cuda = target == TargetKind::CUDA;
  exec::CallOptions calls{cuda ? cudaLibraries() : cpuLibraries(), tf32,
                          deterministic};
  if (cuda)
    module->setAttr(exec::kTargetAttr,
                    StringAttr::get(&getContext(), spell(target.getValue())));
  for (func::FuncOp function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (failed(Emitter(function, parameters, kernels, calls, uses).run()))
      return signalPassFailure();
  emitInputs();
  if (cuda && failed(checkCudaCalls(module)))
    signalPassFailure();
}
