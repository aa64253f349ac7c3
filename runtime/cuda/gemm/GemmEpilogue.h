// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The epilogue of a product as kernels of our own, after the plain product.

#ifndef SHARDONNX_RUNTIME_CUDA_GEMMEPILOGUE_H
#define SHARDONNX_RUNTIME_CUDA_GEMMEPILOGUE_H

#include "../launch/Context.h"
#include "GemmProblem.h"

namespace shardonnx::rt::cuda {

/// `workspace` has problem.workspaceBytes, which the product needs no more.
void enqueueEpilogue(Context &context, const GemmProblem &problem,
                     const GemmOperands &operands, void *workspace);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GEMMEPILOGUE_H
