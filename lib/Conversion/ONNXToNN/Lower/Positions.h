// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables that are shorter than the sequence: what positions read beyond their
// end, or find cut off.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_POSITIONS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_POSITIONS_H

#include "Lowering.h"

namespace shardonnx {

/// Why a Gather cannot read known indices of an axis of `size`; empty if it
/// can.
std::string describeOutside(onnx::NodeOp node, llvm::ArrayRef<int64_t> indices,
                            int64_t axis, int64_t size);

/// The same of positions that are counted in the data, as RoBERTa's are: what
/// the running sum of a mask comes to where all of it is ones.
std::string describeCounted(Lowering &l, onnx::NodeOp node, int64_t size);

/// Refuses a node whose operands do not broadcast: where one of them comes from
/// a Slice that asks for more than there is, that is where the graph is wrong.
Refusal refuseBroadcast(Lowering &l, onnx::NodeOp node);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_POSITIONS_H
