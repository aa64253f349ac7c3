// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that choose elements: by indices that are data, by rank, by a window.
// A group of its own, included by the few files that need it (NNIndex.h).

#ifndef SHARDONNX_DIALECT_NN_INDEX_OPS
#define SHARDONNX_DIALECT_NN_INDEX_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_GatherOp : NN_PureOp<"gather", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Elements of a tensor at indices that are data";
  let description = [{
    The last axis of `indices` holds the coordinates of `data` along
    `indexed_axes`; a negative one counts from the end. Result axis k walks
    along `data_axes[k]` of data and `index_axes[k]` of indices, -1: along
    neither. So one op is ONNX's

    | | data_axes | index_axes | indexed_axes |
    | --- | --- | --- | --- |
    | Gather, axis 1 of [a, b, c], indices [i] | 0, -1, 2 | -1, 0, -1 | 1 |
    | GatherElements, axis 0 of [a, b] | -1, 1 | 0, 1 | 0 |
    | GatherND of [a, b, c], indices [i, 2] | -1, 2 | 0, -1 | 0, 1 |

    Every axis of data is in `data_axes` or `indexed_axes`, once, and every axis
    of indices but the last in `index_axes`. An index outside of its axis ends
    the program with a message.
  }];
  let args = (ins NN_Tensor:$data, NN_IntTensor:$indices,
                       DenseI64ArrayAttr:$data_axes,
                       DenseI64ArrayAttr:$index_axes,
                       DenseI64ArrayAttr:$indexed_axes);
  let results = (outs NN_Tensor:$result);
}

def NN_ScatterNone : I32EnumAttrCase<"none", 0>;
def NN_ScatterAdd : I32EnumAttrCase<"add", 1>;
def NN_ScatterMul : I32EnumAttrCase<"mul", 2>;
def NN_ScatterMin : I32EnumAttrCase<"min", 3>;
def NN_ScatterMax : I32EnumAttrCase<"max", 4>;
// The numbers are ShxReduction's.
def NN_Scatter : I32EnumAttr<"Scatter", "What a scattered element does",
    [NN_ScatterNone, NN_ScatterAdd, NN_ScatterMul, NN_ScatterMin,
     NN_ScatterMax]> {
  let cppNamespace = "::shardonnx::nn";
}

def NN_ScatterOp : NN_Op<"scatter", [Pure,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "A tensor with elements replaced or combined at indices";
  let description = [{
    The result is data (zeros without it) after, for each position of `updates`
    in row-major order, the element that nn.gather of these axes would read has
    become the update, or its sum, product, minimum or maximum with the update.
  }];
  let args = (ins NN_Scatter:$reduction, NN_IntTensor:$indices,
                       NN_Tensor:$updates, Optional<NN_Tensor>:$data,
                       DenseI64ArrayAttr:$data_axes,
                       DenseI64ArrayAttr:$index_axes,
                       DenseI64ArrayAttr:$indexed_axes);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $reduction operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_TopKOp : NN_PureOp<"top_k", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "The k largest (or smallest) elements along an axis, sorted";
  let description = [{
    Of equal elements the one with the lower index comes first, with
    `last_first` the one with the higher. NaN is the largest of all.
  }];
  let args = (ins NN_Tensor:$operand, I64Attr:$axis, I64Attr:$k,
                       UnitAttr:$smallest, UnitAttr:$last_first);
  let results = (outs NN_Tensor:$values, NN_IntTensor:$indices);
}

def NN_WindowsOp : NN_PureOp<"windows", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "A view of the windows that slide along some axes";
  let description = [{
    Axis axes[i] counts windows, `strides[i]` apart, and one more axis at the
    end goes through the `sizes[i]` elements of a window, `dilations[i]` apart:

        [n, c, h, w] → [n, c, (h - d·(size - 1) - 1)/stride + 1, …, size, …]

    A convolution is a product with it, a pooling a reduction of it. Windows may
    overlap: nothing is copied.
  }];
  let args = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$axes,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs NN_Tensor:$result);
}

def NN_OverlapAddOp : NN_Op<"overlap_add", [Pure,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "The sums of windows where they overlap: nn.windows backwards";
  let description = [{
    Each element of the result is the sum of the elements of `operand` that
    nn.windows of the result would take from it; windows are added in the order
    of their last axes.
  }];
  let args = (ins NN_FloatTensor:$operand, DenseI64ArrayAttr:$axes,
                       DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $operand attr-dict `:` type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def NN_GroupedMatmulOp : NN_PureOp<"grouped_matmul", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "Each row times the matrix that it chooses";
  let description = [{
    result[i, :] = rows[i, :]·matrices[indices[i]]: a mixture of experts. rows is
    [n, k], matrices [groups, k, m], or [groups, m, k] with `transposed`; the
    result is [n, m]. Made by nn-group-matmuls.
  }];
  let args = (ins NN_FloatTensor:$rows, NN_FloatTensor:$matrices,
                       NN_IntTensor:$indices, UnitAttr:$transposed);
  let results = (outs NN_FloatTensor:$result);
}

def NN_GroupedMatmulGradOp : NN_PureOp<"grouped_matmul_grad", [
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "The matrices' gradient: outer products added at indices, in order";
  let description = [{
    result[g] is the sum of lhs[i, :]ᵀ·rhs[i, :] over the rows i with
    indices[i] = g.
  }];
  let args = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs,
                       NN_IntTensor:$indices);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_NN_INDEX_OPS
