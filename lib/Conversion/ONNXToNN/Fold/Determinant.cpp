// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The evaluator of Det, in double, rounded once.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// By elimination with pivots, in double.
double determinant(MutableArrayRef<double> a, int64_t n) {
  double result = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column]))
        pivot = row;
    if (a[pivot * n + column] == 0)
      return 0;
    for (int64_t k = 0; k < n && pivot != column; ++k)
      std::swap(a[pivot * n + k], a[column * n + k]);
    result *= (pivot != column ? -1 : 1) * a[column * n + column];
    for (int64_t row = column + 1; row < n; ++row) {
      double factor = a[row * n + column] / a[column * n + column];
      for (int64_t k = column; k < n; ++k)
        a[row * n + k] -= factor * a[column * n + k];
    }
  }
  return result;
}

HostOutputs det(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat() ||
      inputs[0]->getRank() < 2)
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  int64_t n = shape.back();
  if (shape[shape.size() - 2] != n || n == 0 || n > 512 || !countOf(shape))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> items = inputs[0]->flatten();
  std::vector<Scalar> result;
  for (size_t at = 0; at < items.size(); at += n * n) {
    std::vector<double> matrix;
    for (int64_t i = 0; i < n * n; ++i)
      matrix.push_back(items[at + i].f);
    result.push_back(ofFloat(roundTo(determinant(matrix, n), type)));
  }
  return one(HostTensor::dense(shape.drop_back(2), type, std::move(result)));
}

} // namespace

void addDeterminantEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Det"] = det;
}

} // namespace shardonnx
