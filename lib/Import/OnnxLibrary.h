// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Shardonnx asks of the ONNX C++ library. The library throws; nothing
// beyond OnnxLibrary.cpp sees its exceptions.

#ifndef SHARDONNX_LIB_IMPORT_ONNXLIBRARY_H
#define SHARDONNX_LIB_IMPORT_ONNXLIBRARY_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace onnx {
class ModelProto;
class NodeProto;
} // namespace onnx

namespace shardonnx::onnxlib {

/// A model in ONNX's own text.
llvm::Error parseText(llvm::StringRef text, ::onnx::ModelProto &model);

/// What the library knows of a node's op, in the opset that the model imports.
enum class Schema { None, Primitive, HasBody };
Schema findSchema(const ::onnx::ModelProto &model,
                  const ::onnx::NodeProto &node);

/// Replaces calls of model-local functions by their bodies.
llvm::Error inlineFunctions(::onnx::ModelProto &model);

/// Replaces nodes for which `isKnown` is false by the function body of their
/// schema, and so on for what the bodies call. An op whose body cannot be made
/// stays: whoever reads the graph refuses it by its name.
void expandSchemaFunctions(::onnx::ModelProto &model,
                           llvm::function_ref<bool(llvm::StringRef)> isKnown);

/// Converts the model up to opset `version` of the default domain.
llvm::Error convertVersion(::onnx::ModelProto &model, int version);

/// The library's checker.
llvm::Error check(const ::onnx::ModelProto &model);

/// Strict shape inference with data propagation.
llvm::Error inferShapes(::onnx::ModelProto &model);

/// Of a model whose values have types: inputs of a node that the standard gives
/// one type must have one, but for floats of different widths.
llvm::Error checkOperandTypes(const ::onnx::ModelProto &model);

/// The newest opset of the default domain that the library knows.
int newestOpset();

} // namespace shardonnx::onnxlib

#endif // SHARDONNX_LIB_IMPORT_ONNXLIBRARY_H
