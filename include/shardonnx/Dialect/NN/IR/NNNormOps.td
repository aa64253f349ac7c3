// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Normalisations and softmax over the last axis.

#ifndef SHARDONNX_DIALECT_NN_NORM_OPS
#define SHARDONNX_DIALECT_NN_NORM_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_LayerNormOp : NN_PureOp<"layer_norm", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "(x - mean)·rstd·weight + bias over the last axis (torch layer_norm)";
  let description = [{
    rstd = 1/sqrt(var + epsilon), biased variance. mean and rstd are f32
    [..., 1], kept for the gradient. weight and bias are [last axis]; a norm
    without bias has a constant zero one.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       Optional<NN_FloatTensor>:$bias, F32Attr:$epsilon);
  let results = (outs NN_FloatTensor:$result, NN_F32Tensor:$mean,
                      NN_F32Tensor:$rstd);
}

def NN_RmsNormOp : NN_PureOp<"rms_norm", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "x·rstd·weight over the last axis (torch rms_norm)";
  let description = [{
    rstd = 1/sqrt(mean(x²) + epsilon), f32 [..., 1], kept for the gradient.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       F32Attr:$epsilon);
  let results = (outs NN_FloatTensor:$result, NN_F32Tensor:$rstd);
}

def NN_SoftmaxOp : NN_PureOp<"softmax", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "exp(x - max)/sum over the last axis";
  let args = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}

def NN_LogSoftmaxOp : NN_PureOp<"log_softmax", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "x - max - log(sum(exp(x - max))) over the last axis";
  let args = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}

#endif // SHARDONNX_DIALECT_NN_NORM_OPS
