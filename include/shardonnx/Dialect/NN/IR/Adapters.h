// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What nn-add-adapters writes and the manifest passes on.

#ifndef SHARDONNX_DIALECT_NN_IR_ADAPTERS_H
#define SHARDONNX_DIALECT_NN_IR_ADAPTERS_H

#include "llvm/ADT/StringRef.h"

namespace shardonnx::nn {

/// On a parameter that no file holds: how it is drawn (runtime/Lora.h's
/// DrawKind).
inline constexpr llvm::StringLiteral kDrawAttr = "nn.draw";

/// On a parameter: the weight of a linear layer that is no head, which
/// --base-dtype may keep in few bits while it is frozen.
inline constexpr llvm::StringLiteral kBaseAttr = "nn.base";

/// On a module: a dictionary of what runtime/Lora.h's struct has.
inline constexpr llvm::StringLiteral kLoraAttr = "nn.lora";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_ADAPTERS_H
