// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ABI's descriptor of each library call, from the types of its buffers: for
// the sizes of workspaces, for the code, and for counts of FLOPs.

#ifndef SHARDONNX_DIALECT_EXEC_IR_DESCRIPTORS_H
#define SHARDONNX_DIALECT_EXEC_IR_DESCRIPTORS_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/runtime/ABI.h"

namespace shardonnx::exec {

using shardonnx::dtypeOf;

ShxGemm describe(GemmOp op);
ShxGemm describe(GemmEpilogueOp op);
ShxAttention describe(AttentionOp op);
ShxAttention describe(AttentionGradOp op);
ShxEmbedding describe(EmbeddingOp op);
ShxEmbedding describe(EmbeddingGradOp op);
ShxCrossEntropy describe(CrossEntropyOp op);
ShxLinearCrossEntropy describe(LinearCrossEntropyOp op);
ShxCopy describe(CopyOp op);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_IR_DESCRIPTORS_H
