// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses: each a sum, so that means over ranks and microbatches are exact.

#ifndef SHARDONNX_DIALECT_NN_LOSS_OPS
#define SHARDONNX_DIALECT_NN_LOSS_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_CrossEntropyOp : NN_PureOp<"cross_entropy", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Σ -log softmax(logits)[label] over labels other than ignore_index";
  let description = [{
    logits [rows, classes], labels [rows], sum f32 [] (torch cross_entropy with
    reduction='sum').
  }];
  let args = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_F32Tensor:$sum);
}

def NN_CrossEntropyGradOp : NN_PureOp<"cross_entropy_grad", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "The sum, and seed·∂sum/∂logits, in one pass";
  let args = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels,
                       NN_F32Tensor:$seed,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_F32Tensor:$sum, NN_FloatTensor:$logitsGrad);
}

def NN_LinearCrossEntropyOp : NN_PureOp<"linear_cross_entropy", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "cross_entropy of operand·op(weight), in row chunks: logits are never whole";
  let description = [{
    operand [rows, width], weight [width, vocab] ([vocab, width] with
    `transpose_weight`), labels [rows], sum f32 [].
  }];
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       NN_IntTensor:$labels,
                       UnitAttr:$transpose_weight,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_F32Tensor:$sum);
}

def NN_LinearCrossEntropyGradOp : NN_PureOp<"linear_cross_entropy_grad", [
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "The sum, seed·∂sum/∂operand and seed·∂sum/∂weight, in one pass over chunks";
  let description = [{
    The differentiator makes it in place of the forward op, whose sum is then
    its sum. weightGrad may be of another float element type (reduce dtype).
  }];
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       NN_IntTensor:$labels, NN_F32Tensor:$seed,
                       UnitAttr:$transpose_weight,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let hasVerifier = 1;
  let results = (outs NN_F32Tensor:$sum, NN_FloatTensor:$operandGrad,
                      NN_FloatTensor:$weightGrad);
}

def NN_MseOp : NN_PureOp<"mse", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "Σ (prediction - target)², f32 [] (torch mse_loss with reduction='sum')";
  let args = (ins NN_FloatTensor:$prediction, NN_FloatTensor:$target);
  let results = (outs NN_F32Tensor:$sum);
}

#endif // SHARDONNX_DIALECT_NN_LOSS_OPS
