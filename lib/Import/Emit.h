// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last step of the import: a checked ONNX graph becomes MLIR.

#ifndef SHARDONNX_LIB_IMPORT_EMIT_H
#define SHARDONNX_LIB_IMPORT_EMIT_H

#include "Metadata.h"
#include "Parameters.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

class Diagnostics;

/// Emits the module, or prints an error and returns null.
mlir::OwningOpRef<mlir::ModuleOp>
emitModule(const ::onnx::GraphProto &graph,
           const std::vector<Initializer> &initializers,
           const Metadata &metadata, llvm::StringRef modelPath, int opset,
           mlir::MLIRContext &context, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_EMIT_H
