// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of evaluators, and what ONNX says about axes, slices and reshapes.

#include "Evaluate.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

Evaluator findEvaluator(StringRef opType) {
  static const llvm::StringMap<Evaluator> table = [] {
    llvm::StringMap<Evaluator> all;
    addElementwiseEvaluators(all);
    addCastEvaluators(all);
    addMathEvaluators(all);
    addReduceEvaluators(all);
    addScanEvaluators(all);
    addMatmulEvaluators(all);
    addConvEvaluators(all);
    addPoolEvaluators(all);
    addResizeEvaluators(all);
    addGridSampleEvaluators(all);
    addRecurrentEvaluators(all);
    addNormEvaluators(all);
    addPadEvaluators(all);
    addScatterEvaluators(all);
    addSelectEvaluators(all);
    addShapeEvaluators(all);
    addGatherEvaluators(all);
    return all;
  }();
  return table.lookup(opType);
}

std::optional<SmallVector<int64_t>> shortInts(const HostTensor *tensor) {
  constexpr int64_t longest = 1 << 16;
  if (!tensor || tensor->isFloat() || tensor->getRank() > 1 ||
      tensor->getNumElements() > longest)
    return std::nullopt;
  return tensor->flattenInts();
}

std::optional<int64_t> onlyInt(const HostTensor *tensor) {
  if (!tensor || tensor->isFloat() || tensor->getNumElements() != 1)
    return std::nullopt;
  return tensor->front().i;
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

bool advance(MutableArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  for (size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis])
      return true;
    index[axis] = 0;
  }
  return false;
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

SliceBounds clampSlice(int64_t start, int64_t end, int64_t step, int64_t dim) {
  auto clamp = [](int64_t value, int64_t low, int64_t high) {
    return std::min(std::max(value, low), high);
  };
  // Longer steps than the axis take the first element only.
  step = clamp(step, -dim - 1, dim + 1);
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
  // Unlike NumPy's: a start before the first element is the first one.
  start = clamp(start, 0, std::max<int64_t>(dim - 1, 0));
  end = clamp(end, -1, dim - 1);
  int64_t span = dim == 0 ? 0 : start - end;
  return {start, step, span <= 0 ? 0 : (span - 1) / -step + 1};
}

/// The product of dimensions; none when it does not fit.
static std::optional<int64_t> productOf(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    if (llvm::MulOverflow(result, dim, result))
      return std::nullopt;
  return result;
}

std::optional<HostTensor::Dims> resolveReshape(ArrayRef<int64_t> from,
                                               ArrayRef<int64_t> wanted,
                                               bool allowZero) {
  HostTensor::Dims result(wanted);
  int inferred = -1;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == -1) {
      if (inferred >= 0)
        return std::nullopt;
      inferred = static_cast<int>(i);
      result[i] = 1;
      continue;
    }
    if (result[i] == 0 && !allowZero) {
      if (i >= from.size())
        return std::nullopt;
      result[i] = from[i];
    }
    if (result[i] < 0)
      return std::nullopt;
  }
  auto total = productOf(from), known = productOf(result);
  if (!total || !known)
    return std::nullopt;
  if (inferred < 0)
    return *known == *total ? std::optional(result) : std::nullopt;
  if (*known == 0 || *total % *known != 0)
    return std::nullopt;
  result[inferred] = *total / *known;
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
  if (input) {
    auto list = shortInts(input);
    if (!list)
      return std::nullopt;
    axes = *list;
  } else {
    node.getInts("axes", axes);
  }
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
