// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may enter and leave a graph: dense tensors of elements that MLIR has.

#ifndef SHARDONNX_LIB_IMPORT_INTERFACE_H
#define SHARDONNX_LIB_IMPORT_INTERFACE_H

#include <string>

namespace onnx {
class GraphProto;
} // namespace onnx

namespace shardonnx {

/// The inputs and outputs of types that are not supported, each with the op
/// that reads or makes it; empty when there are none.
std::string listUnsupportedTypes(const ::onnx::GraphProto &graph);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_INTERFACE_H
