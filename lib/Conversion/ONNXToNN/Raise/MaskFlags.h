// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks as booleans, true where a key is shown, and the numbers that hide keys.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MASKFLAGS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MASKFLAGS_H

#include "Match.h"

namespace shardonnx {

/// A score of this or less hides a key: its weight is zero in f32.
inline constexpr double kHiddenScore = -1e4;

/// The common shape of values that broadcast to one.
llvm::SmallVector<int64_t> joinShapes(llvm::ArrayRef<mlir::Value> values);

/// The conjunction of booleans that broadcast to one shape.
mlir::Value joinFlags(llvm::ArrayRef<mlir::Value> flags,
                      mlir::PatternRewriter &rewriter, mlir::Location loc);

/// Not `flags`, without a second negation.
mlir::Value invertFlags(mlir::Value flags, mlir::PatternRewriter &rewriter);

/// The one number that a mask of numbers to add holds where it hides a key, if
/// it is made of conditions, is 0 where it hides none, and the number is
/// kHiddenScore or less.
std::optional<double> matchHidingNumber(mlir::Value mask);

/// Where such a mask is 0, of the mask's shape.
mlir::Value buildFlags(mlir::Value mask, mlir::PatternRewriter &rewriter,
                       mlir::Location loc);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MASKFLAGS_H
