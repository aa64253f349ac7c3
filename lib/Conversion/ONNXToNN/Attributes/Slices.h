// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX says about cutting, padding and reshaping: bounds that are clamped,
// steps, sizes that are inferred.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_SLICES_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_SLICES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace shardonnx {

/// The bounds of a Slice along one axis.
struct SliceBounds {
  int64_t start, step, size;
};
SliceBounds clampSlice(int64_t start, int64_t end, int64_t step, int64_t dim);

/// The sizes of the parts when an axis of `dim` elements is cut into parts of
/// `size`, the last one smaller.
llvm::SmallVector<int64_t> equalParts(int64_t dim, int64_t size);

/// The places of an axis of `dim` elements that a Pad by `low` and `high` in
/// one of its modes but `constant` reads; none where ONNX does not say.
std::optional<llvm::SmallVector<int64_t>>
padPlaces(llvm::StringRef mode, int64_t dim, int64_t low, int64_t high);

/// The shape that a Reshape to `wanted` has; none when it does not fit.
std::optional<llvm::SmallVector<int64_t>>
resolveReshape(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> wanted,
               bool allowZero);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_SLICES_H
