// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout and random numbers, and the random bits that a kernel computes where
// it needs them.

#ifndef SHARDONNX_DIALECT_NN_RANDOM_OPS
#define SHARDONNX_DIALECT_NN_RANDOM_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_DropoutOp : NN_PureOp<"dropout", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "Zeroes a share of the elements, scales the rest by 1/(1 - ratio)";
  let description = [{
    torch.nn.functional.dropout. The mask is a function of the run's seed, the
    `stream` (each dropout of a graph has its own), the sample's number in the
    run and the element's place in the sample (runtime/Random.h); so it is the
    same in the gradient, under recomputation, and for any number of ranks.
    Axis 0 is `samples` groups of equal size, one for each sample of the
    microbatch. `random` is the function argument of kind `random`: the number
    of the microbatch's first sample, then a key for each stream.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_IntTensor:$random,
                       F64Attr:$ratio, I64Attr:$stream, I64Attr:$samples);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

def NN_RandomUniformOp : NN_PureOp<"random_uniform", [
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "Random numbers in [0, 1), as torch.rand draws them";
  let description = [{
    Multiples of 2^-24, all as likely; which an element gets is told as
    nn.dropout tells what it keeps: by the seed, the `stream`, the sample and
    the element's place in it.
  }];
  let args = (ins NN_IntTensor:$random, I64Attr:$stream, I64Attr:$samples);
  let results = (outs NN_F32Tensor:$result);
  let hasVerifier = 1;
}

def NN_RandomKeyOp : NN_Op<"random_key", [Pure,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>]> {
  let summary = "Half of a row's key";
  let description = [{
    `indices` count along the axes of the rows; their row-major number within
    `sizes`, beginning at `first`, is the row. `half` 0: the low 32 bits.
  }];
  let args = (ins NN_IntTensor:$stream, NN_IntTensor:$first,
                       Variadic<NN_IntTensor>:$indices,
                       DenseI64ArrayAttr:$sizes, I64Attr:$half);
  let results = (outs NN_IntTensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_RandomKeepOp : NN_Op<"random_keep", [Pure,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>]> {
  let summary = "True where the random bits of a column reach `threshold`, unsigned";
  let args = (ins NN_IntTensor:$low, NN_IntTensor:$high,
                       NN_IntTensor:$column, I64Attr:$threshold);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_RandomFractionOp : NN_Op<"random_fraction", [Pure,
    DeclareOpInterfaceMethods<ElementwiseOpInterface>]> {
  let summary = "The upper 24 random bits of a column as a number in [0, 1)";
  let args = (ins NN_IntTensor:$low, NN_IntTensor:$high,
                       NN_IntTensor:$column);
  let results = (outs NN_F32Tensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
}

#endif // SHARDONNX_DIALECT_NN_RANDOM_OPS
