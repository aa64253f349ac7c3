// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lowerings of ops that choose elements share.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H

#include "Handlers.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"

namespace shardonnx {

/// Can the values be indices of nn.gather?
inline bool areIndices(mlir::Value value) {
  mlir::Type type = elementType(value);
  return type.isInteger(64) || type.isInteger(32);
}

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H
