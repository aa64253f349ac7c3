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

def SumOutputsPass : Pass<"nn-sum-outputs", "mlir::ModuleOp"> {
  let summary = "The sum of the float outputs is the loss, float inputs are trained";
  let description = [{
    What `shardonnx eval --grad` differentiates. Float arguments of @forward are
    read as trainable parameters, which remember the argument
    (`argument`), and nn.loss gets the sum of all elements of all float
    results. Where no trainable parameter reaches it there is no loss, and
    nothing to differentiate.

    Preserves numerics: yes (it adds ops).
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def MakeEvalPass : Pass<"nn-make-eval", "mlir::ModuleOp"> {
  let summary = "@forward or @microbatch becomes @eval, which takes weights and returns gradients";
  let description = [{
    Parameters become arguments, as the model's files hold them (`nn.source`
    where the bytes lie), gradients become results (`nn.gradient_of` names the
    argument) of the argument's type, zeros where nothing flows. Results whose
    value is known (`nn.value`), the loss and what only it reads go.

    Preserves numerics: yes; gradients are cast to the types of the arguments.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RemoveEmptyPass : Pass<"nn-remove-empty", "mlir::func::FuncOp"> {
  let summary = "Tensors of no elements are computed by no kernel";
  let description = [{
    An op without a result that has elements becomes constants; a concat leaves
    out what is empty; sums over nothing (reductions, products, gradients of
    lookups and slices) are zeros. An op that makes elements of none in another
    way is an error.

    Preserves numerics bit for bit.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

#endif // SHARDONNX_DIFFERENTIATE_PASSES
