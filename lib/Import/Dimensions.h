// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binding of dynamic dimensions to the numbers that the user gives.

#ifndef SHARDONNX_LIB_IMPORT_DIMENSIONS_H
#define SHARDONNX_LIB_IMPORT_DIMENSIONS_H

#include "llvm/Support/LogicalResult.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Optimum's merged decoders are told by this input, one boolean, whether keys
/// of earlier tokens are given.
inline constexpr llvm::StringLiteral kCacheSwitch = "use_cache_branch";

class Diagnostics;
struct ImportOptions;

/// Sets every dimension of the graph's inputs and forgets inferred shapes, so
/// that they are inferred anew. One error names all dimensions left unbound.
llvm::LogicalResult bindDimensions(::onnx::GraphProto &graph,
                                   const ImportOptions &options,
                                   Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_DIMENSIONS_H
