// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a linear layer gains by products of 8 bits (nn-f8-products). No MLIR
// here.

#ifndef SHARDONNX_COST_LINEARLAYER_H
#define SHARDONNX_COST_LINEARLAYER_H

namespace shardonnx {

struct Device;

/// rows x depth by depth x columns, and both gradients.
struct LinearLayer {
  double rows = 0, depth = 0, columns = 0;
  bool half = true; // in 16 bits where not in 8, else in 32
};

/// A microbatch's time for the layer's products without 8 bits, over that with
/// them and with what rounds their operands: by row, or by tensor.
double f8Gain(const Device &device, const LinearLayer &layer, bool byRow);

} // namespace shardonnx

#endif // SHARDONNX_COST_LINEARLAYER_H
