// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention of this instruction set.

#include "IsaKernels.h"

namespace shardonnx::rt::SHX_ISA {

extern const AttentionKernels attentionKernels;
const AttentionKernels attentionKernels = {attention, attentionGrad};

} // namespace shardonnx::rt::SHX_ISA
