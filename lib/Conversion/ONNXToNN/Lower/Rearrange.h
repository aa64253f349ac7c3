// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of elements that no single nn op has, as slices, reshapes and joins.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H

#include "Lowering.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx {

/// `low` and `high` elements of `value` in front of and behind an axis.
mlir::Value padAxis(Lowering &l, mlir::Value operand, unsigned axis,
                    int64_t low, int64_t high, double value);

/// Joins tensors along an axis; one of them stays as it is.
mlir::Value join(Lowering &l, llvm::ArrayRef<mlir::Value> parts, unsigned axis);

/// The elements of an axis backwards.
mlir::Value reverseAxis(Lowering &l, mlir::Value value, unsigned axis);

/// `count` elements from `start` on, every `step`-th, which may be negative.
mlir::Value stepAxis(Lowering &l, mlir::Value value, unsigned axis,
                     int64_t start, int64_t step, int64_t count);

/// The elements of an axis at known indices, as runs that repeat one, ascend
/// or descend; null where there are too many runs to be worth it.
mlir::Value takeAxis(Lowering &l, mlir::Value value, unsigned axis,
                     llvm::ArrayRef<int64_t> indices);

/// The square root of a sum of squares, f32: gradient 0 at 0 (torch.norm's).
mlir::Value safeSqrt(nn::NNBuilder &b, mlir::Value square);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REARRANGE_H
