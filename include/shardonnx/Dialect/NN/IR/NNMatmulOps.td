// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, attention, embedding: what a library call computes.

#ifndef SHARDONNX_DIALECT_NN_MATMUL_OPS
#define SHARDONNX_DIALECT_NN_MATMUL_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_MatmulOp : NN_PureOp<"matmul", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "Matrix product over the last two axes, leading axes broadcast";
  let description = [{
    op(lhs) is [..., m, k] and op(rhs) [..., k, n] after the optional swap of
    their last two axes; the result is [..., m, n], summed in f32 and of any
    float element type (a weight gradient leaves in the reduce dtype). A linear
    layer flattens its rows first: lhs [rows, k], rhs two-dimensional.
  }];
  let args = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs NN_FloatTensor:$result);
  // Result element type: that of lhs where none is given.
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs,
      CArg<"bool", "false">:$transposeLhs, CArg<"bool", "false">:$transposeRhs,
      CArg<"::mlir::Type", "nullptr">:$elementType)>];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def NN_EpilogueBias : I32EnumAttrCase<"bias", 1>;
def NN_EpilogueGeluBias : I32EnumAttrCase<"gelu_bias", 2>;
def NN_EpilogueDGelu : I32EnumAttrCase<"dgelu", 3>;
def NN_EpilogueBGrad : I32EnumAttrCase<"bgrad", 4>;
// The numbers are ShxEpilogue's.
def NN_Epilogue : I32EnumAttr<"Epilogue", "What follows a matrix product",
    [NN_EpilogueBias, NN_EpilogueGeluBias, NN_EpilogueDGelu,
     NN_EpilogueBGrad]> {
  let cppNamespace = "::shardonnx::nn";
  let genSpecializedAttr = 0;
}
def NN_EpilogueAttr : EnumAttr<NN_Dialect, NN_Epilogue, "epilogue">;

def NN_MatmulEpilogueOp : NN_PureOp<"matmul_epilogue", [
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "A matrix product and what follows it, one library call";
  let description = [{
    p = op(lhs)·op(rhs) as in nn.matmul, of two axes, [m, n]:

    | epilogue | side | result | extra |
    | --- | --- | --- | --- |
    | `bias` | bias [n] | p + bias | |
    | `gelu_bias` | bias [n] | gelu(p + bias), tanh's form | p + bias |
    | `dgelu` | x [m, n] | p · gelu'(x), tanh's form | |
    | `bgrad` | | p | the sums of op(rhs)'s columns [n] |

    side, result and extra have one element type. Made by nn-fuse-epilogues
    after differentiation.
  }];
  let args = (ins NN_EpilogueAttr:$epilogue, NN_FloatTensor:$lhs,
                       NN_FloatTensor:$rhs, Optional<NN_FloatTensor>:$side,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs NN_FloatTensor:$result, Optional<NN_FloatTensor>:$extra);
  let assemblyFormat = [{
    `` $epilogue operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_AttentionOp : NN_PureOp<"attention", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface, ["isComposite"]>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "Scaled dot-product attention";
  let description = [{
    softmax(scale·q·kᵀ + mask)·v per head (torch
    scaled_dot_product_attention). q is [batch, seqQ, heads, headDim], k and v
    [batch, seqK, kvHeads, headDim], heads a multiple of kvHeads: head h reads
    kv head h·kvHeads/heads. `causal`: query i sees keys ≤ i + seqK - seqQ;
    `window`: only the last `window` of them; `softcap`: scores become
    cap·tanh(score/cap). mask broadcasts to [batch, heads, seqQ, seqK]: i1
    (true = visible) or f32 (added); or it is i32 [batch, 1, seqQ, 1], the first
    key that each query sees, which never falls along the queries. A query all
    of whose scores are -inf gets zeros; where `unguarded` NaN, as a softmax
    alone has it. Unless `hidden` is 0: then what is not visible has that large
    negative score, or, where `added`, its score and that, which matters to a
    query that no key is visible to (f32 masks, too, may hide by numbers): it
    weighs what PyTorch's softmax weighs, keys after it among them. `lse` is the
    log-sum-exp of the scores, f32 [batch, heads, seqQ], kept for the gradient:
    NaN where the result is, the largest score of such a query.

    A `sink`, f32 [heads], is one more score of each query, after scale, cap and
    masks, whose value is zeros (Xiao et al. 2024, as gpt-oss trains it): `lse`
    counts it, too. Kernels compute attention without; nn-decompose takes its
    share from what they give, and the gradients are those of `lse`.
  }];
  let args = (ins NN_FloatTensor:$query, NN_FloatTensor:$key,
                       NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       Optional<NN_F32Tensor>:$sink, F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       UnitAttr:$unguarded,
                       DefaultValuedAttr<F32Attr, "0.0">:$hidden,
                       UnitAttr:$added);
  let results = (outs NN_FloatTensor:$result, NN_F32Tensor:$lse);
  let assemblyFormat = NN_AttentionFormat;
  let hasVerifier = 1;
}

def NN_AttentionGradOp : NN_PureOp<"attention_grad", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "Gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes probabilities from lse, never keeps scores (Dao 2023,
    FlashAttention-2, algorithm 2). The mask gets no gradient. A query that no
    key is visible to is known by its lse.
  }];
  let args = (ins NN_FloatTensor:$query, NN_FloatTensor:$key,
                       NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       NN_FloatTensor:$result, NN_F32Tensor:$lse,
                       NN_FloatTensor:$resultGrad,
                       F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       DefaultValuedAttr<F32Attr, "0.0">:$hidden,
                       UnitAttr:$added);
  let results = (outs NN_FloatTensor:$queryGrad, NN_FloatTensor:$keyGrad,
                      NN_FloatTensor:$valueGrad);
}

def NN_RotaryOp : NN_PureOp<"rotary", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "Rotary position embedding of [batch, seq, heads, headDim]";
  let description = [{
    cos and sin are f32 [seq, d] with 2·d ≤ headDim; the first 2·d elements of
    the head rotate, the rest passes. Pair j is (j, j + d), or (2j, 2j + 1)
    when `interleaved` (ONNX RotaryEmbedding). `inverse` rotates back: the
    gradient.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_F32Tensor:$cos,
                       NN_F32Tensor:$sin, UnitAttr:$interleaved,
                       UnitAttr:$inverse);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

def NN_EmbeddingOp : NN_PureOp<"embedding", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Rows of a table: result[i..., :] = table[ids[i...], :]";
  let args = (ins NN_FloatTensor:$table, NN_IntTensor:$ids);
  let results = (outs NN_FloatTensor:$result);
}

def NN_EmbeddingGradOp : NN_PureOp<"embedding_grad"> {
  let summary = "The table's gradient: rows of resultGrad added at ids, in order";
  let args = (ins NN_IntTensor:$ids, NN_FloatTensor:$resultGrad);
  let results = (outs NN_FloatTensor:$tableGrad);
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_NN_MATMUL_OPS
