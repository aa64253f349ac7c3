// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ops of a step take on a GPU, in bytes that could be sent meanwhile: how
// collectives of tensor and context axes and other work are weighed.

#ifndef SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_AXISWORK_H
#define SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_AXISWORK_H

#include "mlir/IR/Operation.h"

namespace shardonnx::fsdp {

/// What a GPU does in the time in which it sends a byte.
struct AxisRates {
  double flops; // of products
  double moved; // bytes through its own memory
};

double bytesOf(mlir::ValueRange values);

/// Exchanges a tensor along an axis.
bool sends(mlir::Operation *op);
/// Bytes at most, of the larger of what is given and what comes.
double sentBy(mlir::Operation *op);

/// Is not run: it is memory that is there, or an end.
bool isFree(mlir::Operation *op);
double workOf(mlir::Operation *op, const AxisRates &rates);

} // namespace shardonnx::fsdp

#endif // SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_AXISWORK_H
