// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products whose operands are floats of 8 bits. A group of its own with a
// header of its own (NNF8.h), as NNMath is.

#ifndef SHARDONNX_DIALECT_NN_F8_OPS
#define SHARDONNX_DIALECT_NN_F8_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_F8E4M3 : I32EnumAttrCase<"e4m3", 0>;
def NN_F8E5M2 : I32EnumAttrCase<"e5m2", 1>;
def NN_F8Format : I32EnumAttr<"F8Format", "A float of 8 bits",
    [NN_F8E4M3, NN_F8E5M2]> {
  let cppNamespace = "::shardonnx::nn";
}

def NN_F8StepOp : NN_PureOp<"f8_step", [
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "What an element of 8 bits counts, by the largest absolute value";
  let description = [{
    1/s, s the largest power of two with s·max(amax, 1e-12) ≤ the format's
    largest number (448 for e4m3, 57344 for e5m2): torchao's scale with
    `round_scales_to_power_of_2`. An amax that is not finite leaves no product
    finite. Gradient 0.
  }];
  let args = (ins NN_F8Format:$format, NN_F32Tensor:$amax);
  let results = (outs NN_F32Tensor:$result);
  let assemblyFormat = [{
    $format operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_F8RoundOp : NN_PureOp<"f8_round", [
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "x rounded to a multiple of step that 8 bits hold";
  let description = [{
    step · f8(x / step), to nearest even, in x's own type, which holds it
    exactly (bf16 and f32 do). `step` broadcasts to x. Gradient 0: what reads
    the result says which value it stands for.
  }];
  let args = (ins NN_F8Format:$format, NN_FloatTensor:$operand,
                       NN_F32Tensor:$step);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $format operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_F8Tensorwise : I32EnumAttrCase<"tensorwise", 0>;
def NN_F8Rowwise : I32EnumAttrCase<"rowwise", 1>;
def NN_F8Recipe : I32EnumAttr<"F8Recipe", "How operands are scaled",
    [NN_F8Tensorwise, NN_F8Rowwise]> {
  let cppNamespace = "::shardonnx::nn";
}

def NN_F8MatmulOp : NN_PureOp<"f8_matmul", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "A linear layer's product of rounded operands, and its gradients of rounded ones";
  let description = [{
    lhs·op(rhs), lhs [rows, k] and rhs two-dimensional, each the source beside
    it rounded by nn.f8_round: gradients go to the sources. They are products
    too, of the result's gradient g (torchao's recipes of the same names,
    rowwise that whose weight gradients stay in high precision):

    | recipe | rows' gradient | weight's gradient |
    | --- | --- | --- |
    | tensorwise | e5m2(g) · rhs_back | e5m2(g) · lhs |
    | rowwise | e4m3(g), scaled by row · rhs_back | g · lhs_source |

    `rhs_back` is rhs_source rounded by one scale. On ranks of `grad_axes` of
    the mesh g has parts that are scaled together. Made by nn-f8-products;
    nn-decompose makes it an nn.matmul.
  }];
  let args = (ins NN_F8Recipe:$recipe, NN_FloatTensor:$lhs,
                       NN_FloatTensor:$rhs, NN_FloatTensor:$lhs_source,
                       NN_FloatTensor:$rhs_source, NN_FloatTensor:$rhs_back,
                       UnitAttr:$transpose_rhs,
                       OptionalAttr<StrArrayAttr>:$grad_axes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $recipe operands attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = "bool getTransposeLhs() { return false; }";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Stored in 8 bits
//===----------------------------------------------------------------------===//

def NN_F8TensorStepOp : NN_PureOp<"f8_tensor_step", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "nn.f8_step of the largest absolute value of whole tensors";
  let description = [{
    Made by nn-store-f8, of tensors of one shape. The kernel that computes them
    takes their step, too: a larger value never has a smaller step, so that the
    step of all is the largest that any block of threads finds, in whatever
    order. fsdp-to-exec fills what it is joined in with zeros.
  }];
  let args = (ins NN_F8Format:$format, Variadic<NN_FloatTensor>:$inputs);
  let results = (outs NN_F32Tensor:$result);
  let assemblyFormat = [{
    $format operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_F8WeightStepOp : NN_Op<"f8_weight_step", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "nn.f8_step e4m3 of the largest absolute value of whole parameters";
  let description = [{
    Of what products read of them, on all ranks. Made by nn-store-f8: the update
    has taken it, once a step, so that no microbatch reads weights for it.
    fsdp-to-exec gives those of the same parameters one `index`, and notes it at
    the parameters (`nn.f8_steps`).
  }];
  let args = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$parameters,
                       OptionalAttr<I64Attr>:$index);
  let results = (outs NN_F32Tensor:$result);
  let assemblyFormat = "$parameters attr-dict `:` type($result)";
}

def NN_F8CastOp : NN_PureOp<"f8_cast", [
    DeclareOpInterfaceMethods<ElementwiseOpInterface>,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "f8(x / step): nn.f8_round in 8 bits, without its step";
  let description = [{
    What nn.f8_round gives is this times `step`, which broadcasts to x. Made by
    nn-store-f8; products read it.
  }];
  let args = (ins NN_F8Format:$format, NN_FloatTensor:$operand,
                       NN_F32Tensor:$step);
  let results = (outs NN_F8Tensor:$result);
  let assemblyFormat = [{
    $format operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_F8CastMatrixOp : NN_PureOp<"f8_cast_matrix", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "A matrix in 8 bits, as it is and transposed";
  let description = [{
    f8_cast of x [m, n], read once: `rows` [m, n] and `columns` [n, m], its
    transpose, which products sum along its rows. A result that nobody reads is
    not written. `step` is of one element, [m, 1] or [1, n].
  }];
  let args = (ins NN_F8Format:$format, NN_FloatTensor:$operand,
                       NN_F32Tensor:$step);
  let results = (outs NN_F8Tensor:$rows, NN_F8Tensor:$columns);
  let assemblyFormat = [{
    $format operands attr-dict `:` functional-type(operands, results)
  }];
}

def NN_F8ProductOp : NN_PureOp<"f8_product", [
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "A product of matrices of 8 bits and their steps, one library call";
  let description = [{
    result[i, j] = lhs_step[i]·rhs_step[j]·Σ lhs[i, k]·rhs[j, k] (+ addend), the
    addend [m, n] or, for every row the same, [n]. Both operands lie as tensor
    cores of 8 bits want them: k is the last axis. The steps are both of one
    element, or [m, 1] and [n, 1]. `fast`: partial sums may lose bits of f32,
    as torchao has it in forward.
  }];
  let args = (ins NN_F8Tensor:$lhs, NN_F8Tensor:$rhs, NN_F32Tensor:$lhs_step,
                       NN_F32Tensor:$rhs_step, Optional<NN_FloatTensor>:$addend,
                       UnitAttr:$fast);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_NN_F8_OPS
