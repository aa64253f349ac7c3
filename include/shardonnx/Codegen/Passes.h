// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from kernels to code for CPUs and GPUs.

#ifndef SHARDONNX_CODEGEN_PASSES_H
#define SHARDONNX_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace shardonnx {

#define GEN_PASS_DECL
#include "shardonnx/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Codegen/Passes.h.inc"

} // namespace shardonnx

#endif // SHARDONNX_CODEGEN_PASSES_H
