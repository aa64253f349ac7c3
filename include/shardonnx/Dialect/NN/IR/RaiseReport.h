// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a module says what the raise made of it, for `inspect`.

#ifndef SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H
#define SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H

#include "llvm/ADT/StringRef.h"

namespace shardonnx::nn {

/// On a module, an array of dictionaries: `what` an op or a pattern is, the
/// ONNX `nodes` that it stands for, and `why` it is written out where it is.
inline constexpr llvm::StringLiteral kRaisedAttr = "nn.raised";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H
