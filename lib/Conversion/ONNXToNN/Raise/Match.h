// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small matchers that the raising patterns share. Exporters write the same
// product in any order and type conversions in between, so these look through
// both.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MATCH_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MATCH_H

#include "mlir/IR/PatternMatch.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

#include <optional>

namespace shardonnx {

using nn::elementType;
using nn::rankOf;
using nn::shapeOf;

/// The number that a constant holds everywhere, through shape ops and casts.
std::optional<double> matchSplat(mlir::Value value);

/// Equal up to the precision that `value`'s element type gives a constant.
bool isSplatOf(mlir::Value value, double expected);

/// `value` without conversions between float types.
mlir::Value stripCasts(mlir::Value value);

/// `value` without factors that are one number: value = scale · result.
mlir::Value stripScale(mlir::Value value, double &scale);

/// Splits `lhs·rhs` or `lhs + rhs` into one operand that is a number and the
/// other one.
template <typename Op>
std::optional<std::pair<mlir::Value, double>>
matchWithSplat(mlir::Value value) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return std::nullopt;
  if (auto number = matchSplat(op.getRhs()))
    return std::make_pair(mlir::Value(op.getLhs()), *number);
  if (auto number = matchSplat(op.getLhs()))
    return std::make_pair(mlir::Value(op.getRhs()), *number);
  return std::nullopt;
}

/// Swaps heads and sequence: [batch, heads, seq, dim] to [batch, seq, heads,
/// dim] or back.
inline constexpr int64_t kSwapHeads[] = {0, 2, 1, 3};

/// The x of x² (as a power or a product), or null.
mlir::Value matchSquare(mlir::Value value);

/// Whether `value` is x³.
bool isCube(mlir::Value value, mlir::Value x);

/// Applies the patterns until none matches; what they make stands where the op
/// stood that they rewrite.
llvm::LogicalResult rewriteInPlace(mlir::Operation *op,
                                   mlir::RewritePatternSet &&patterns);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_MATCH_H
