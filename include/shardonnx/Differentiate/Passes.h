// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation.

#ifndef SHARDONNX_DIFFERENTIATE_PASSES_H
#define SHARDONNX_DIFFERENTIATE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace shardonnx {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "shardonnx/Differentiate/Passes.h.inc"

} // namespace shardonnx

#endif // SHARDONNX_DIFFERENTIATE_PASSES_H
