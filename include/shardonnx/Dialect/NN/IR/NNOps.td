// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All ops of the nn dialect, a file for each family.

#ifndef SHARDONNX_DIALECT_NN_OPS
#define SHARDONNX_DIALECT_NN_OPS

include "shardonnx/Dialect/NN/IR/NNParameterOps.td"
include "shardonnx/Dialect/NN/IR/NNElementwiseOps.td"
include "shardonnx/Dialect/NN/IR/NNShapeOps.td"
include "shardonnx/Dialect/NN/IR/NNMatmulOps.td"
include "shardonnx/Dialect/NN/IR/NNNormOps.td"
include "shardonnx/Dialect/NN/IR/NNLossOps.td"
include "shardonnx/Dialect/NN/IR/NNRandomOps.td"
include "shardonnx/Dialect/NN/IR/NNFusedOps.td"

#endif // SHARDONNX_DIALECT_NN_OPS
