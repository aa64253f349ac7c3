// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lowering of a graph asks of quantized values.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_QUANTIZATION_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_QUANTIZATION_H

#include "Lowering.h"

namespace shardonnx {

/// Whether a node's integers of 8 or 16 bits, which a program computes none of,
/// are known or are whole numbers in f32: a QuantizeLinear whose result is only
/// read as numbers again, and the DequantizeLinear that does so.
bool isOfNumbers(Lowering &l, onnx::NodeOp node);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_QUANTIZATION_H
