// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whose the gradient is where several elements are equal.

#ifndef SHARDONNX_DIALECT_NN_IR_TIES_H
#define SHARDONNX_DIALECT_NN_IR_TIES_H

#include "llvm/ADT/StringRef.h"

namespace shardonnx::nn {

/// Of an nn.reduce_max: the gradient is that of the first maximum, in the order
/// of the axes, as torch.max(x, dim) and poolings have it. Without it all
/// maxima share it, as of torch.amax.
inline constexpr llvm::StringLiteral kFirstAttr = "nn.first";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_TIES_H
