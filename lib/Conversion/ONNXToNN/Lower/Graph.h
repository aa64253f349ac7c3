// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conversion of a whole graph.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRAPH_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRAPH_H

#include "Signature.h"

namespace shardonnx {

/// Rewrites the module's only function, of one block of `onnx` ops, to `nn`;
/// on failure one error has been emitted.
llvm::LogicalResult lowerGraph(mlir::ModuleOp module,
                               const LoweringOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_GRAPH_H
