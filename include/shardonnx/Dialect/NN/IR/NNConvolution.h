// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn ops of convolutions. Apart from NN.h, which most files of the compiler
// include: only those that name these ops include this.

#ifndef SHARDONNX_DIALECT_NN_IR_NNCONVOLUTION_H
#define SHARDONNX_DIALECT_NN_IR_NNCONVOLUTION_H

#include "shardonnx/Dialect/NN/IR/NN.h"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNConvolutionOps.h.inc"

namespace shardonnx::nn {

/// Registers the group with the dialect.
void registerConvolutionOps(NNDialect &dialect);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNCONVOLUTION_H
