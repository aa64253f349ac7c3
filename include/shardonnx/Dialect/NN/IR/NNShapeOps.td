// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that move or reduce elements.

#ifndef SHARDONNX_DIALECT_NN_SHAPE_OPS
#define SHARDONNX_DIALECT_NN_SHAPE_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_ReshapeOp : NN_Op<"reshape", [Pure,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "The same elements in row-major order under another shape";
  let args = (ins NN_Tensor:$operand);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_TransposeOp : NN_PureOp<"transpose", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Permutes the axes: result axis i is operand axis permutation[i]";
  let args = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
}

def NN_BroadcastOp : NN_Op<"broadcast", [Pure,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "NumPy broadcast to the result's shape";
  let args = (ins NN_Tensor:$operand);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_SliceOp : NN_PureOp<"slice", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "sizes[i] elements from offsets[i] on, along each axis";
  let args = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$sizes);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
}

def NN_ConcatOp : NN_PureOp<"concat", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Joins tensors along an axis";
  let args = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs NN_Tensor:$result);
}

def NN_PadOp : NN_PureOp<"pad", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Zeros before and after, along each axis";
  let args = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high);
  let results = (outs NN_Tensor:$result);
}

class NN_ReduceOp<string mnemonic, string doc> : NN_PureOp<mnemonic, [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = doc;
  let description = [{
    The reduced axes (sorted, non-negative) stay as size 1 with `keepdims`.
    Sums in f32. Programs reduce floats; the interpreter reduces all elements.
  }];
  let args = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$axes,
                       UnitAttr:$keepdims);
  let results = (outs NN_Tensor:$result);
}
def NN_ReduceSumOp : NN_ReduceOp<"reduce_sum", "Sum over axes">;
def NN_ReduceMeanOp : NN_ReduceOp<"reduce_mean", "Mean over axes">;
def NN_ReduceMaxOp : NN_ReduceOp<"reduce_max",
    "Maximum over axes; ties share the gradient as torch.amax">;

#endif // SHARDONNX_DIALECT_NN_SHAPE_OPS
