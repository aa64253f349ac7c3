// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers that only move whole ranges. PyTorch's exporter writes masks as
// functions of indices, so that `mask[b, k]` over all b and k is a GatherND
// with a grid of them.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRIDGATHER_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRIDGATHER_H

#include "Lowering.h"

namespace shardonnx {

/// `data[indices[..., 0], indices[..., 1], …]` as slices, a transpose and a
/// broadcast; null where each index does not count up by one along an axis of
/// its own.
mlir::Value gatherGrid(Lowering &lowering, mlir::Value data,
                       const HostTensor &indices);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRIDGATHER_H
