// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of evaluators, and what they share.

#include "Evaluate.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

Evaluator findEvaluator(StringRef opType) {
  static const llvm::StringMap<Evaluator> table = [] {
    llvm::StringMap<Evaluator> all;
    addBitEvaluators(all);
    addConstantEvaluators(all);
    addDeterminantEvaluators(all);
    addNormEvaluators(all);
    addSelectEvaluators(all);
    return all;
  }();
  return table.lookup(opType);
}

std::optional<int64_t> countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    if (dim < 0 || (dim > 0 && count > maxEvaluated / dim))
      return std::nullopt;
    else
      count *= dim;
  return count;
}

AxisView::AxisView(ArrayRef<int64_t> shape, unsigned axis)
    : length(shape[axis]) {
  for (auto [i, dim] : llvm::enumerate(shape))
    if (i != axis)
      (i < axis ? outer : inner) *= dim;
}

Type elementTypeOf(int64_t dataType, MLIRContext *context) {
  Builder b(context);
  switch (dataType) {
  case 1:
    return b.getF32Type();
  case 2:
    return b.getIntegerType(8, false);
  case 3:
    return b.getI8Type();
  case 4:
    return b.getIntegerType(16, false);
  case 5:
    return b.getI16Type();
  case 6:
    return b.getI32Type();
  case 7:
    return b.getI64Type();
  case 9:
    return b.getI1Type();
  case 10:
    return b.getF16Type();
  case 11:
    return b.getF64Type();
  case 12:
    return b.getIntegerType(32, false);
  case 13:
    return b.getIntegerType(64, false);
  case 16:
    return b.getBF16Type();
  default:
    return {};
  }
}

} // namespace shardonnx
