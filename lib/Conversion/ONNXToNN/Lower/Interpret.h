// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants by lowering: what a node of known inputs computes is what the ops
// that it becomes compute.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INTERPRET_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INTERPRET_H

#include "../Fold/Evaluate.h"

namespace shardonnx {

/// The outputs of a node whose inputs are known; none where its lowering
/// refuses it, or what it becomes is too large to be interpreted.
HostOutputs interpretLowering(onnx::NodeOp node, HostInputs inputs);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INTERPRET_H
