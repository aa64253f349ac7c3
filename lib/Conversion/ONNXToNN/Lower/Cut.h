// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bounds that are numbers, of clamp and its kin.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CUT_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CUT_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx {

/// `bound` where x lies beyond it or on it (`beyond`: le or ge), else x: on a
/// bound nothing flows to x, as torch.clamp by numbers, relu6 and hardtanh have
/// it.
inline mlir::Value cutAt(nn::NNBuilder &b, nn::ComparePredicate beyond,
                         mlir::Value x, mlir::Value bound) {
  return b.select(b.compare(beyond, x, bound), bound, x);
}

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_CUT_H
