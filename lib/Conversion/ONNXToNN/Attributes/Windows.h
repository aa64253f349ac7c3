// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX says about windows that slide over spatial axes, for convolutions
// and poolings.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_WINDOWS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_WINDOWS_H

#include "shardonnx/Dialect/ONNX/IR/ONNX.h"

namespace shardonnx {

/// Windows along the spatial axes, all but the first two of a tensor.
struct Windows {
  llvm::SmallVector<int64_t> sizes, strides, dilations;
  /// The padding in front of and behind each axis; what is negative is cut off.
  llvm::SmallVector<int64_t> low, high;
  /// How far the last window reaches over the padding, with ceil_mode.
  llvm::SmallVector<int64_t> beyond;
  /// How many there are along each axis.
  llvm::SmallVector<int64_t> places;

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  /// From the first to the last element of a window.
  int64_t span(int64_t i) const { return dilations[i] * (sizes[i] - 1) + 1; }
  /// From the first element of the first to the last of the last one.
  int64_t extent(int64_t i) const {
    return (places[i] - 1) * strides[i] + span(i);
  }
};

/// The windows of sizes `kernel` over spatial axes `input`: strides, dilations,
/// pads, auto_pad and ceil_mode. What is said where they do not fit, else
/// empty.
llvm::StringRef readWindows(onnx::NodeOp node, llvm::ArrayRef<int64_t> input,
                            llvm::ArrayRef<int64_t> kernel, Windows &windows);

/// The windows of the convolution whose gradient a ConvTranspose is: `places`
/// are its input, and low and high are cut off the sum of what they add.
llvm::StringRef readTransposedWindows(onnx::NodeOp node,
                                      llvm::ArrayRef<int64_t> places,
                                      llvm::ArrayRef<int64_t> kernel,
                                      Windows &windows);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_WINDOWS_H
