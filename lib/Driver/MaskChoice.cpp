// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Under causal attention padding comes after the text and no query of the text
// sees it, so a mask of ones says the same and costs nothing. Where attention
// looks both ways the mask matters, and the program reads it. Which it is, is
// seen on a copy that has been raised with ones.

#include "MaskChoice.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/runtime/InputKind.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace shardonnx {
namespace {

bool hasInput(ModuleOp module, llvm::function_ref<bool(StringRef)> isWanted) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto name = function.getArgAttrOfType<StringAttr>(i, "onnx.name");
      if (name && isWanted(name.getValue()))
        return true;
    }
  return false;
}

bool hasMask(ModuleOp module) { return hasInput(module, isPaddingMask); }

/// What is asked for and not there is no silent nothing.
void warnOfMissing(ModuleOp module, const CompileOptions &options) {
  if (options.attentionMask == MaskMode::Input && !hasMask(module))
    module.emitWarning("--attention-mask=input: the graph has no padding mask "
                       "among its inputs, so none is read");
  auto isPositions = [](StringRef name) {
    return isNamed(name, InputKind::PositionIds);
  };
  if (options.positionIds == PositionMode::Input &&
      !hasInput(module, isPositions))
    module.emitWarning("--position-ids=input: the graph has no input "
                       "position_ids, so none are read");
}

/// What passes have to say is not printed: they say it again on the module.
OwningOpRef<ModuleOp> raiseCopy(ModuleOp module, bool readMasks) {
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy(module.clone());
  if (readMasks)
    (*copy)->setAttr(onnx::kReadMasksAttr, UnitAttr::get(module.getContext()));
  RaiseOptions options;
  options.dropout = DropoutMode::Off;
  PassManager pm(module.getContext());
  buildRaisePipeline(pm, options);
  if (failed(pm.run(*copy)))
    return nullptr;
  return copy;
}

bool looksBothWays(ModuleOp module) {
  return module
      .walk([](nn::AttentionOp op) {
        return op.getCausal() ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Whether a user of a mask hands on what padding is: neither an attention,
/// which looksBothWays judges, nor positions that were counted by the mask.
bool handsOn(OpOperand &use) {
  Operation *user = use.getOwner();
  return !isa<nn::AttentionOp>(user) &&
         !(isa<nn::EmbeddingOp>(user) && use.getOperandNumber() != 0);
}

/// Whether what a function returns depends on a mask by another way than an
/// attention: a pooled mean, or scores that make up no known attention.
bool masksReachResults(ModuleOp module) {
  SmallVector<Value> values;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                        nn::kNameAttr);
      if (name && isPaddingMask(name.getValue()))
        values.push_back(argument);
    }
  llvm::DenseSet<Value> reached(values.begin(), values.end());
  while (!values.empty())
    for (OpOperand &use : values.pop_back_val().getUses()) {
      if (isa<func::ReturnOp>(use.getOwner()))
        return true;
      if (handsOn(use))
        for (Value result : use.getOwner()->getResults())
          if (reached.insert(result).second)
            values.push_back(result);
    }
  return false;
}

/// A graph whose masks can only be ones still compiles: its program refuses
/// data that says otherwise.
bool masksMatter(ModuleOp module) {
  OwningOpRef<ModuleOp> ones = raiseCopy(module, /*readMasks=*/false);
  if (!ones)
    return false;
  OwningOpRef<ModuleOp> read = raiseCopy(module, /*readMasks=*/true);
  return read && (looksBothWays(*ones) || masksReachResults(*read));
}

} // namespace

void chooseMasks(ModuleOp module, const CompileOptions &options) {
  warnOfMissing(module, options);
  bool read = options.attentionMask == MaskMode::Input ||
              (options.attentionMask == MaskMode::Auto && hasMask(module) &&
               masksMatter(module));
  if (read)
    module->setAttr(onnx::kReadMasksAttr, UnitAttr::get(module.getContext()));
}

} // namespace shardonnx
