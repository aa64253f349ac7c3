// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of evaluators, and what ONNX says about axes, slices and reshapes.

#include "Evaluate.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {

Evaluator findEvaluator(StringRef opType) {
  static const llvm::StringMap<Evaluator> table = [] {
    llvm::StringMap<Evaluator> all;
    addElementwiseEvaluators(all);
    addShapeEvaluators(all);
    addGatherEvaluators(all);
    return all;
  }();
  return table.lookup(opType);
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
  case 16:
    return b.getBF16Type();
  default:
    return {};
  }
}

SliceBounds clampSlice(int64_t start, int64_t end, int64_t step, int64_t dim) {
  auto clamp = [](int64_t value, int64_t low, int64_t high) {
    return std::min(std::max(value, low), high);
  };
  if (start < 0)
    start = start < -dim ? -1 : start + dim;
  else
    start = std::min(start, dim);
  bool endBeforeAll = end < -dim;
  if (end < 0)
    end = endBeforeAll ? -1 : end + dim;
  else
    end = std::min(end, dim);
  if (step > 0) {
    start = clamp(start, 0, dim);
    end = clamp(end, 0, dim);
    int64_t span = end - start;
    return {start, step, span <= 0 ? 0 : (span - 1) / step + 1};
  }
  start = clamp(start, -1, dim - 1);
  end = clamp(end, -1, dim - 1);
  int64_t span = start - end;
  return {start, step, span <= 0 ? 0 : (span - 1) / -step + 1};
}

std::optional<HostTensor::Dims> resolveReshape(ArrayRef<int64_t> from,
                                               ArrayRef<int64_t> wanted,
                                               bool allowZero) {
  int64_t total = 1, known = 1;
  for (int64_t dim : from)
    total *= dim;
  HostTensor::Dims result(wanted);
  int inferred = -1;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == -1) {
      if (inferred >= 0)
        return std::nullopt;
      inferred = static_cast<int>(i);
      continue;
    }
    if (result[i] == 0 && !allowZero) {
      if (i >= from.size())
        return std::nullopt;
      result[i] = from[i];
    }
    if (result[i] < 0)
      return std::nullopt;
    known *= result[i];
  }
  if (inferred >= 0) {
    if (known == 0 || total % known != 0)
      return std::nullopt;
    result[inferred] = total / known;
    known *= result[inferred];
  }
  if (known != total)
    return std::nullopt;
  return result;
}

std::optional<unsigned> normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis >= rank)
    return std::nullopt;
  return static_cast<unsigned>(axis);
}

std::optional<SmallVector<int64_t>>
readAxes(onnx::NodeOp node, const HostTensor *input, int64_t rank) {
  SmallVector<int64_t> axes;
  if (input)
    axes = input->flattenInts();
  else
    node.getInts("axes", axes);
  for (int64_t &axis : axes) {
    std::optional<unsigned> positive = normalizeAxis(axis, rank);
    if (!positive)
      return std::nullopt;
    axis = *positive;
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return std::nullopt;
  return axes;
}

} // namespace shardonnx
