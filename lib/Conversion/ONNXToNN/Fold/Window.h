// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX says about windows that slide over spatial axes, for convolutions
// and pooling.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_WINDOW_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_WINDOW_H

#include "Evaluate.h"

namespace shardonnx {

/// Of each spatial axis.
struct Window {
  using Dims = HostTensor::Dims;
  Dims input, kernel, stride, dilation, before, after, output;

  /// The input position that tap `tap` of output position `out` reads along
  /// `axis`; negative or beyond the end inside the padding.
  int64_t source(size_t axis, int64_t out, int64_t tap) const {
    return out * stride[axis] + tap * dilation[axis] - before[axis];
  }
  /// The position in row-major order of what tap `tap` reads for `out`; none in
  /// the padding.
  std::optional<int64_t> position(llvm::ArrayRef<int64_t> out,
                                  llvm::ArrayRef<int64_t> tap) const;
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode of a node whose
/// spatial axes are `input` and whose windows are `kernel`. None when they do
/// not fit.
std::optional<Window> readWindow(onnx::NodeOp node,
                                 llvm::ArrayRef<int64_t> input,
                                 llvm::ArrayRef<int64_t> kernel);

/// The integers of attribute `name`, one for each of `rank` axes; none when
/// there are more or fewer, or one is less than `least`.
std::optional<HostTensor::Dims> readPerAxis(onnx::NodeOp node,
                                            llvm::StringRef name, size_t rank,
                                            int64_t byDefault, int64_t least);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_FOLD_WINDOW_H
