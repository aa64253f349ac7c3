// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A causal mask, recognised among tensors of known value and written so that
// its size does not matter: comparisons of indices instead of seq × seq flags.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CAUSALMASK_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CAUSALMASK_H

#include "mlir/IR/Builders.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"

namespace shardonnx {

using nn::HostTensor;
using nn::Scalar;

/// Row i of `rows` sees column j of `columns` when j ≤ i + columns - rows, and,
/// with a window, only the last `window` of these.
struct CausalMask {
  int64_t rows = 0;
  int64_t columns = 0;
  /// 0: no window.
  int64_t window = 0;
};

/// Two values placed by a causal mask.
struct CausalTensor {
  CausalMask mask;
  Scalar visible;
  Scalar hidden;
};

/// Recognises a tensor whose last two axes hold a causal mask and which does
/// not vary along the others.
std::optional<CausalTensor> recognizeCausal(const HostTensor &tensor);

/// Builds the mask as i1 of shape [1, …, rows, columns].
mlir::Value buildCausalMask(mlir::OpBuilder &builder, mlir::Location loc,
                            const CausalMask &mask, int64_t rank);

/// Recognises what buildCausalMask made, through reshapes that add axes.
std::optional<CausalMask> matchCausalMask(mlir::Value value);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CAUSALMASK_H
