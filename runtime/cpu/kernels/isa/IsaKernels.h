// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of one instruction set; Kernels.cpp of the set lists them.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_ISAKERNELS_H
#define SHARDONNX_RUNTIME_CPU_ISA_ISAKERNELS_H

#include "../Kernels.h"
#include "AttentionTile.h"

namespace shardonnx::rt::SHX_ISA {

void attention(const ShxAttention &desc, const AttentionOperands &args,
               int64_t task, int64_t next, float *scratch);
void attentionGrad(const ShxAttention &desc, const AttentionGradOperands &args,
                   int64_t task, int64_t next, float *scratch);
double crossEntropyRow(const float *logits, int64_t classes, int64_t label,
                       float softcap, float seed, float *dlogits);
extern const AttentionKernels attentionKernels;
extern const ProductKernels f32Product;
extern const DepthwiseKernels depthwiseKernels;

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_ISAKERNELS_H
