// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the library's inliner takes for granted of a model's own functions.

#ifndef SHARDONNX_LIB_IMPORT_LOCALFUNCTIONS_H
#define SHARDONNX_LIB_IMPORT_LOCALFUNCTIONS_H

namespace onnx {
class ModelProto;
} // namespace onnx

namespace shardonnx {

/// Calls state the defaults of the attributes that they leave out, and no
/// function hands an input back, or one value twice: an Identity stands
/// between.
void completeFunctions(::onnx::ModelProto &model);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_LOCALFUNCTIONS_H
