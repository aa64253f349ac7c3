// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lowerings of ops that choose elements share.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H

#include "Lowering.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"

namespace shardonnx {

void addScatterHandlers(HandlerTable &table);
void addSelectionHandlers(HandlerTable &table);
void addConvolutionHandlers(HandlerTable &table);
void addPoolingHandlers(HandlerTable &table);

/// Can the values be indices of nn.gather?
inline bool areIndices(mlir::Value value) {
  mlir::Type type = elementTypeOf(value);
  return type.isInteger(64) || type.isInteger(32);
}

/// Windows along the spatial axes, all but the first two.
struct Windows {
  llvm::SmallVector<int64_t> sizes, strides, dilations, low, high;

  int64_t rank() const { return int64_t(sizes.size()); }
  /// From the first to the last element of a window.
  int64_t span(int64_t i) const { return dilations[i] * (sizes[i] - 1) + 1; }
  /// How many fit in an axis of `size`.
  int64_t count(int64_t i, int64_t size) const {
    return (size + low[i] + high[i] - span(i)) / strides[i] + 1;
  }
};

/// The windows of a Conv or a pooling over `shape`, its kernel's sizes given or
/// read from `kernel_shape`; none, and the node is refused, if they do not fit.
std::optional<Windows> readWindows(Lowering &l, onnx::NodeOp node,
                                   llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<int64_t> sizes = {});

/// `value` with `filler` around its spatial axes; a negative width cuts.
mlir::Value padSpatial(Lowering &l, mlir::Value value,
                       llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high, double filler);

/// nn.windows over the spatial axes of a padded value.
mlir::Value slideWindows(Lowering &l, mlir::Value value,
                         const Windows &windows);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INDEX_H
