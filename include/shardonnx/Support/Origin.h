// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where an operation came from in the user's ONNX graph. The import attaches
// it to every location as the metadata of a FusedLoc; units, error messages
// and reports read it back here, so no pass looks into the location by itself.

#ifndef SHARDONNX_SUPPORT_ORIGIN_H
#define SHARDONNX_SUPPORT_ORIGIN_H

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace shardonnx {

/// The ONNX node that an operation stands for. All fields may be empty.
struct Origin {
  /// The name of the ONNX node, or of its first output where it has no name.
  llvm::StringRef node;
  /// The ONNX op type, for example "Gemm".
  llvm::StringRef op;
  /// The module path, for example "transformer.h.0.mlp".
  llvm::StringRef path;

  bool empty() const { return node.empty() && op.empty() && path.empty(); }
};

/// Makes the location `fused<{node = …, op = …, path = …}>["NODE"]`.
mlir::Location makeOriginLoc(mlir::MLIRContext *context, llvm::StringRef node,
                             llvm::StringRef op, llvm::StringRef path);

/// The first origin found in `loc`, searched through fused, named and
/// call-site locations; empty when there is none.
Origin getOrigin(mlir::Location loc);

/// The words for a message: `node 'node_addmm' (Gemm)`; empty when unknown.
std::string describeOrigin(mlir::Location loc);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_ORIGIN_H
