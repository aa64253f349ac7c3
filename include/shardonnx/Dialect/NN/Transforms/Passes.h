// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on the forward nn graph.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

namespace shardonnx::nn {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H
