// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation.

#ifndef SHARDONNX_DIFFERENTIATE_PASSES_H
#define SHARDONNX_DIFFERENTIATE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace shardonnx {

// What nn-sum-outputs tells nn-make-eval, on a parameter: which argument of the
// function it is, and that its gradient is asked for.
inline constexpr llvm::StringLiteral kArgumentAttr = "nn.argument";
inline constexpr llvm::StringLiteral kWantedAttr = "nn.wanted";
// What nn-make-eval says of an argument that is a weight: its symbol, and where
// its bytes lie; of a result that is a gradient: the name of what it is of.
inline constexpr llvm::StringLiteral kWeightAttr = "nn.weight";
inline constexpr llvm::StringLiteral kSourceAttr = "nn.source";
inline constexpr llvm::StringLiteral kGradientOfAttr = "nn.gradient_of";

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "shardonnx/Differentiate/Passes.h.inc"

} // namespace shardonnx

#endif // SHARDONNX_DIFFERENTIATE_PASSES_H
