// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-to-exec: function by function, then the graph's inputs.

#include "Emitter.h"
#include "shardonnx/Conversion/FSDPToExec/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
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
    std::string name;
    std::optional<InputKind> kind; // none: from how it is used
    Type type;
    bool output = false;
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
      StringRef name = nn::inputName(function, i);
      inputs.push_back({name.empty() ? "input" + std::to_string(i) : name.str(),
                        nn::inputKind(function, i), type});
    }
    collectOutputs(function);
  }
  uses.resize(inputs.size());
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      for (const nn::IdUse &use : nn::idUsesOf(function, i))
        uses[i].add(use);
  return success();
}

// What a function returns, it writes into memory that it is given: behind its
// inputs.
void FSDPToExec::collectOutputs(func::FuncOp function) {
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
    inputs.push_back({name ? name.str() : "output" + std::to_string(i),
                      std::nullopt, type, /*output=*/true});
  }
}

// What the runtime fills an input with of which nobody said it: by its use,
// else by the names that every exporter gives.
static InputKind kindByUse(StringRef name, Type type, const InputUse &use) {
  if (use.ignored)
    return use.shifted || use.tokens ? InputKind::ShiftedLabels
                                     : InputKind::Labels;
  if (std::optional<InputKind> kind = nn::kindByName(name, type))
    return *kind;
  return use.tokens ? InputKind::Tokens : InputKind::Data;
}

void FSDPToExec::emitInputs() {
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  for (auto [index, input] : llvm::enumerate(inputs)) {
    StringRef kind = exec::kOutputKind;
    if (!input.output)
      kind = spell(input.kind ? *input.kind
                              : kindByUse(input.name, input.type, uses[index]));
    exec::InputOp::create(builder, getOperation().getLoc(), index, input.name,
                          kind, uses[index].limit(), input.type,
                          uses[index].ignored.value_or(kIgnoredLabel));
  }
}

/// Numbers the steps of weights, one for each set of parameters that has one.
static void numberWeightSteps(ModuleOp module) {
  llvm::MapVector<ArrayAttr, int64_t> numbers;
  module.walk([&](nn::F8WeightStepOp step) {
    auto known = numbers.try_emplace(step.getParameters(), numbers.size());
    step.setIndex(known.first->second);
  });
  llvm::MapVector<nn::ParameterOp, SmallVector<int64_t>> steps;
  for (auto [parameters, number] : numbers)
    for (auto name : parameters.getAsRange<FlatSymbolRefAttr>())
      steps[module.lookupSymbol<nn::ParameterOp>(name)].push_back(number);
  for (auto &[parameter, ofIt] : steps)
    parameter->setAttr(nn::kF8StepsAttr,
                       DenseI64ArrayAttr::get(module.getContext(), ofIt));
}

// What GPUs do in another way than a user may think: said once.
static void remarkOnCudaCalls(ModuleOp module) {
  llvm::StringSet<> made;
  module.walk([&](exec::RuntimeCallOpInterface call) {
    std::string remark = call.getCudaRemark();
    if (!remark.empty() && made.insert(remark).second)
      call->emitRemark(remark);
  });
}

void FSDPToExec::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(collectInputs()))
    return signalPassFailure();
  numberWeightSteps(module);
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
  if (cuda)
    remarkOnCudaCalls(module);
}
