// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FoldNumbers.h.

#include "FoldNumbers.h"

#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Support/TemporaryFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace shardonnx {

/// What the raise has folded the results of @forward to.
static std::vector<std::optional<int64_t>> readResults(ModuleOp module) {
  std::vector<std::optional<int64_t>> numbers;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto value =
        forward.getResultAttrOfType<DenseElementsAttr>(i, nn::kValueAttr);
    Type type = value ? value.getElementType() : Type();
    bool known = value && value.getNumElements() == 1 &&
                 (type.isInteger(1) || type.isInteger(64));
    std::optional<int64_t> number;
    if (known) {
      APInt bits = *value.value_begin<APInt>();
      number = type.isInteger(1) ? int64_t(bits.getZExtValue())
                                 : bits.getSExtValue();
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::optional<int64_t>>
foldNumbers(StringRef model, const llvm::StringMap<GivenInput> &inputs) {
  auto file = TemporaryFile::createHolding("shardonnx-fold", "onnx", model);
  if (!file)
    return {};
  CompileOptions options;
  options.model = (*file)->getPath().str();
  options.program = ProgramKind::Eval;
  ImportOptions import;
  import.inputs = inputs;
  // For each CastLike that it replaces by its body, the library would infer the
  // whole graph's shapes anew.
  import.isSupported = [](StringRef op) {
    return isEvaluable(op) || op == "CastLike";
  };
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
