// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation.

#ifndef SHARDONNX_DIFFERENTIATE_PASSES
#define SHARDONNX_DIFFERENTIATE_PASSES

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"nn-differentiate", "mlir::ModuleOp"> {
  let summary = "@forward with a loss becomes @microbatch (with gradients) and @eval";
  let description = [{
    Reverse mode over DifferentiableOpInterface, for the values that depend on
    a trainable parameter and reach the loss. Gradients of a value that is
    used several times are added; a parameter's gradient is handed to
    `nn.grad` right after it is complete. A trainable parameter that does not
    reach the loss is frozen, with a warning: PyTorch gives it no gradient, so
    no optimizer step either.

    What the gradients read of the forward values is what is saved; choosing
    to compute it again is a later pass.

    Preserves numerics: yes (it adds ops).
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

#endif // SHARDONNX_DIFFERENTIATE_PASSES
