// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of elements that no single nn op has, as slices, reshapes and joins.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H

#include "../Attributes/Windows.h"
#include "Handlers.h"

namespace shardonnx {

/// `low` and `high` elements of `value` in front of and behind an axis.
mlir::Value padAxis(Lowering &l, mlir::Value operand, unsigned axis,
                    int64_t low, int64_t high, mlir::Value scalar);
mlir::Value padAxis(Lowering &l, mlir::Value operand, unsigned axis,
                    int64_t low, int64_t high, double value);

/// `value` with `filler` around its spatial axes; a negative width cuts.
mlir::Value padSpatial(Lowering &l, mlir::Value value,
                       llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high, double filler);

/// nn.windows over the spatial axes of a padded value.
mlir::Value slideWindows(Lowering &l, mlir::Value value,
                         const Windows &windows);

/// Joins tensors along an axis; one of them stays as it is.
mlir::Value join(Lowering &l, llvm::ArrayRef<mlir::Value> parts, unsigned axis);

/// The elements of an axis backwards.
mlir::Value reverseAxis(Lowering &l, mlir::Value value, unsigned axis);

/// `count` elements from `start` on, every `step`-th, which may be negative.
mlir::Value stepAxis(Lowering &l, mlir::Value value, unsigned axis,
                     int64_t start, int64_t step, int64_t count);

/// The elements of an axis at known indices: few runs that repeat one, ascend
/// or descend, or a gather.
mlir::Value takeAxis(Lowering &l, mlir::Value value, unsigned axis,
                     llvm::ArrayRef<int64_t> indices);

/// The square root of a sum of squares, f32: gradient 0 at 0 (torch.norm's).
mlir::Value safeSqrt(nn::NNBuilder &b, mlir::Value square);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H
