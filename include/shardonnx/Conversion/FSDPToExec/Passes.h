// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From tensors to buffers.

#ifndef SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES_H
#define SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES_H

#include "mlir/Pass/Pass.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx {

#define GEN_PASS_DECL
#include "shardonnx/Conversion/FSDPToExec/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Conversion/FSDPToExec/Passes.h.inc"

} // namespace shardonnx

#endif // SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES_H
