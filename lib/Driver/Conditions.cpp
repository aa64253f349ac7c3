// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Conditions.h.

#include "Conditions.h"

#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Support/TemporaryFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace shardonnx {

/// What the raise has folded the results of @forward to.
static std::vector<std::optional<bool>> readResults(ModuleOp module) {
  std::vector<std::optional<bool>> truths;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto value =
        forward.getResultAttrOfType<DenseElementsAttr>(i, nn::kValueAttr);
    bool known = value && value.getElementType().isInteger(1) &&
                 value.getNumElements() == 1;
    truths.push_back(known ? std::optional(*value.value_begin<bool>())
                           : std::nullopt);
  }
  return truths;
}

std::vector<std::optional<bool>>
foldConditions(StringRef model, const llvm::StringMap<GivenInput> &inputs) {
  auto file = TemporaryFile::createHolding("shardonnx-if", "onnx", model);
  if (!file)
    return {};
  CompileOptions options;
  options.model = (*file)->getPath().str();
  options.program = ProgramKind::Eval;
  ImportOptions import;
  import.inputs = inputs;
  import.isSupported = isEvaluable;
  Diagnostics quiet("shardonnx", llvm::nulls());
  Compilation compilation(options, quiet, std::move(import));
  if (failed(compilation.runTo(Level::Onnx)))
    return {};
  for (auto init : compilation.module().getOps<onnx::InitializerOp>())
    init.setTrainable(false);
  if (failed(compilation.runTo(Level::NN)))
    return {};
  return readResults(compilation.module());
}

} // namespace shardonnx
