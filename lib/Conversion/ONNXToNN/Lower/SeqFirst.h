// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout of heads that nn.attention and nn.rotary share.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SEQFIRST_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SEQFIRST_H

#include "Handlers.h"

namespace shardonnx {

/// [batch, heads, seq, dim] transposed, or [batch, seq, heads·dim] split, to
/// [batch, seq, heads, dim]; null where the heads do not divide the width.
mlir::Value toSeqFirst(Lowering &l, mlir::Value value, int64_t heads);
mlir::Value fromSeqFirst(Lowering &l, mlir::Value value, bool wasFlat);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SEQFIRST_H
