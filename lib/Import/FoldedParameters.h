// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters that the exporter's optimizer computed something from and then
// dropped: what is left is a constant under another name. Where the computation
// only moved elements or added one to them, it can be put back.

#ifndef SHARDONNX_LIB_IMPORT_FOLDEDPARAMETERS_H
#define SHARDONNX_LIB_IMPORT_FOLDEDPARAMETERS_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
class TensorProto;
} // namespace onnx

namespace shardonnx {

/// Whether `name` is what the exporter calls a result of an operator: "add",
/// "add_12".
bool isResultOf(llvm::StringRef name, llvm::StringRef op);

/// Undoes, before anything reads the graph,
///  - `1 + weight`, the scale of Gemma's norms,
///  - rows of a table at positions, such as learned position embeddings,
///  - a row repeated along other axes, such as a class token,
///  - a stack of matrices that only slices are taken of, such as experts.
/// The constant becomes the parameter under its own name, and nodes at the head
/// of the graph compute the constant from it. `initializers[i]` and the graph's
/// initializer i are the same.
void recoverFoldedParameters(::onnx::GraphProto &graph,
                             const Metadata &metadata,
                             llvm::StringRef modelPath,
                             std::vector<Initializer> &initializers);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_FOLDEDPARAMETERS_H
