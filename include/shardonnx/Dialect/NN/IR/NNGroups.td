// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every group of the nn dialect, for its page in docs.

#ifndef SHARDONNX_DIALECT_NN_GROUPS
#define SHARDONNX_DIALECT_NN_GROUPS

include "shardonnx/Dialect/NN/IR/NNOps.td"
include "shardonnx/Dialect/NN/IR/NNConvolutionOps.td"
include "shardonnx/Dialect/NN/IR/NNF8Ops.td"
include "shardonnx/Dialect/NN/IR/NNIndexOps.td"
include "shardonnx/Dialect/NN/IR/NNMathOps.td"
include "shardonnx/Dialect/NN/IR/NNMeshOps.td"

#endif // SHARDONNX_DIALECT_NN_GROUPS
