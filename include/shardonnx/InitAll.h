// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one place that knows every dialect and pass of the project: both tools
// register through it.

#ifndef SHARDONNX_INITALL_H
#define SHARDONNX_INITALL_H

namespace mlir {
class DialectRegistry;
}

namespace shardonnx {

/// The project's dialects, and those of MLIR that they lower to.
void registerAllDialects(mlir::DialectRegistry &registry);

/// The project's passes and pipelines.
void registerProjectPasses();

/// These, and MLIR's general ones.
void registerAllPasses();

} // namespace shardonnx

#endif // SHARDONNX_INITALL_H
