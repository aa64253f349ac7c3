// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resolves slices, splits, pads and shapes.

#include "Slices.h"

#include "llvm/Support/MathExtras.h"

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace shardonnx {

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
  int64_t span = dim == 0 || step == 0 ? 0 : start - end;
  return {start, step, span <= 0 ? 0 : (span - 1) / -step + 1};
}

SmallVector<int64_t> equalParts(int64_t dim, int64_t size) {
  SmallVector<int64_t> parts;
  for (int64_t left = dim; left > 0; left -= size)
    parts.push_back(std::min(size, left));
  return parts;
}

std::optional<SmallVector<int64_t>> padPlaces(StringRef mode, int64_t dim,
                                              int64_t low, int64_t high) {
  SmallVector<int64_t> places;
  constexpr int64_t most = int64_t(1) << 25;
  if (dim < 1 || low + dim + high > most)
    return std::nullopt;
  // Mirrored without the border elements, there and back is one period.
  int64_t period = mode == "reflect" ? std::max<int64_t>(2 * dim - 2, 1) : dim;
  for (int64_t i = -low; i < dim + high; ++i) {
    int64_t place = ((i % period) + period) % period;
    if (mode == "edge")
      place = std::clamp<int64_t>(i, 0, dim - 1);
    else if (mode == "reflect")
      place = std::min(place, period - place);
    else if (mode != "wrap")
      return std::nullopt;
    places.push_back(place);
  }
  return places;
}

/// The product of dimensions; none when it does not fit.
static std::optional<int64_t> productOf(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    if (llvm::MulOverflow(result, dim, result))
      return std::nullopt;
  return result;
}

std::optional<SmallVector<int64_t>> resolveReshape(ArrayRef<int64_t> from,
                                                   ArrayRef<int64_t> wanted,
                                                   bool allowZero) {
  SmallVector<int64_t> result(wanted);
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

} // namespace shardonnx
