// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which keys the queries of an ONNX Attention see: its mask, its causality, its
// windows and the lengths of an outer cache, as one mask.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_ATTENTIONMASK_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_ATTENTIONMASK_H

#include "Lowering.h"

namespace shardonnx {

struct AttentionSizes {
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t keys = 0; // those of the past among them
  int64_t past = 0;
};

/// What nn.attention takes: the last two where they say all.
struct AttentionMask {
  mlir::Value value; // null: none; i1 or f32, of rank 4
  bool causal = false;
  int64_t window = 0;

  /// Everything as one value; null where every key is visible.
  mlir::Value whole(Lowering &l, const AttentionSizes &sizes) const;
};

/// None, and the node is refused, where it cannot be made.
std::optional<AttentionMask> buildAttentionMask(Lowering &l, onnx::NodeOp node,
                                                const AttentionSizes &sizes);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_ATTENTIONMASK_H
