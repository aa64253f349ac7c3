// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and values of different widths, as DeepSeek's latent attention has them:
// attention reads heads of one. Zeros behind the narrower ones change no score,
// and what they add to the result is cut off.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HEADWIDTHS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HEADWIDTHS_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx {

/// `value` with zeros behind its last axis, which then has `width` elements.
mlir::Value widen(nn::NNBuilder &b, mlir::Value value, int64_t width);

/// The first `width` elements of the last axis.
mlir::Value narrow(nn::NNBuilder &b, mlir::Value value, int64_t width);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HEADWIDTHS_H
