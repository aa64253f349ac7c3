// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which way attention is computed over sequences of which ranks have parts.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_CONTEXTATTENTION_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_CONTEXTATTENTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx {
struct Device;
} // namespace shardonnx

namespace shardonnx::nn {

/// The ranks of the context axis, each of which is so many of a tensor axis.
struct ContextRanks {
  int64_t parts, tensor;

  int64_t all() const { return parts * tensor; }
  /// How often key/value heads are repeated, of which each rank is to have
  /// some; nothing where the ranks do not divide the heads.
  std::optional<int64_t> repeats(AttentionOp op) const;
};

/// Whether the mask is the first key that each query sees.
bool isFirstKeys(mlir::Value mask);

/// Whether what queries of one part see can be said of all keys that begin
/// with the part behind theirs.
bool canGather(AttentionOp op);

/// The way that a function's attention takes, all in one: `asked`, or what is
/// predicted to be the fastest on `device`, or without one what sends least.
/// Auto where some take their heads and others all keys. An error where what is
/// asked for cannot be had.
llvm::FailureOr<ContextAttention>
chooseContextAttention(mlir::func::FuncOp function, ContextAttention asked,
                       ContextRanks ranks, llvm::ArrayRef<int64_t> lengths,
                       const Device *device);

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_CONTEXTATTENTION_H
