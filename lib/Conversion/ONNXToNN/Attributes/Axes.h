// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX says about axes: counted from the end where they are negative, an
// attribute in older opsets and an input in newer ones.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_AXES_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_AXES_H

#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"

namespace shardonnx {

/// The elements of a short list of integers (a shape, axes, bounds); none when
/// it is something else.
std::optional<llvm::SmallVector<int64_t>>
shortInts(const nn::HostTensor *tensor);

/// Non-negative `axis` of a tensor of `rank`; none when out of range.
std::optional<unsigned> normalizeAxis(int64_t axis, int64_t rank);

/// The axes of a node that has them as an attribute or as input 1, sorted and
/// non-negative; none when they are not known or out of range.
std::optional<llvm::SmallVector<int64_t>>
readAxes(onnx::NodeOp node, const nn::HostTensor *input, int64_t rank);

/// The axes that a reduction is over: without any, all of them, unless
/// noop_with_empty_axes says none.
std::optional<llvm::SmallVector<int64_t>>
readReducedAxes(onnx::NodeOp node, const nn::HostTensor *input, int64_t rank);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_ATTRIBUTES_AXES_H
