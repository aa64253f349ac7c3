// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may enter and leave a graph: dense tensors of elements that MLIR has, of
// known shapes.

#ifndef SHARDONNX_LIB_IMPORT_INTERFACE_H
#define SHARDONNX_LIB_IMPORT_INTERFACE_H

#include <string>

namespace onnx {
class GraphProto;
class ModelProto;
} // namespace onnx

namespace shardonnx {

/// The inputs, initializers and outputs of types that are not supported, each
/// with the op that reads or makes it; empty when there are none.
std::string listUnsupportedTypes(const ::onnx::GraphProto &graph);

/// The inputs that state no type or not even a rank; empty when there are none.
std::string listShapeless(const ::onnx::GraphProto &graph);

/// Outputs that state no type, as tools leave them, get what shape inference
/// finds: the library's checker wants one.
void completeOutputs(::onnx::ModelProto &model);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_INTERFACE_H
