// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the ranks of one axis of the mesh compute together. A group of its own
// with a header of its own (NNMesh.h).

#ifndef SHARDONNX_DIALECT_NN_MESH_OPS
#define SHARDONNX_DIALECT_NN_MESH_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

// `axis` is one of Mesh.h's, `parts` the ranks that it has. Every rank runs the
// same program, so all meet in the order of these ops.
class NN_MeshOp<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<InferTypeOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)> {
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}

def NN_VaryOp : NN_MeshOp<"vary",
    [DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "The operand, of which each rank computes something else";
  let description = [{
    What is whole on every rank of the axis and read where ranks have parts:
    each has a part of its gradient, which is the sum of these (Megatron's f,
    Shoeybi et al. 2019; jax.lax.pvary). It is the operand itself once the
    gradient is known.
  }];
  let args = (ins NN_FloatTensor:$operand, StrAttr:$axis, I64Attr:$parts);
}

def NN_AllReduceOp : NN_MeshOp<"all_reduce"> {
  let summary = "The sum of the operands of the axis's ranks, on each of them";
  let description = [{
    In f32, in the order of the ranks, rounded once. What follows is the same on
    every rank, and so is the gradient: each summand has it (Megatron's g).
  }];
  let args = (ins NN_FloatTensor:$operand, StrAttr:$axis, I64Attr:$parts);
}

class NN_SplitOp<string mnemonic, dag more = (ins)> : NN_MeshOp<mnemonic> {
  let args = !con((ins NN_Tensor:$operand, StrAttr:$axis, I64Attr:$parts,
                       I64Attr:$dim, DenseI64ArrayAttr:$sections), more);
}

def NN_AllSliceOp : NN_SplitOp<"all_slice"> {
  let summary = "This rank's part of what every rank has";
  let description = [{
    Along `dim`, which consists of `sections`: the rank's part of each of them,
    side by side. The gradient is nn.all_gather of the ranks' parts.
  }];
}

def NN_AllGatherOp : NN_SplitOp<"all_gather", (ins UnitAttr:$varies)> {
  let summary = "The whole of which each rank has a part";
  let description = [{
    The inverse of nn.all_slice, whose gradient it is; its own is this rank's
    part of the whole's. With `varies` each rank computes something else of the
    whole, as of what nn.vary gives: the gradient is then nn.reduce_scatter.
  }];
}

def NN_ReduceScatterOp : NN_SplitOp<"reduce_scatter"> {
  let summary = "This rank's part of the sum of the ranks' operands";
  let description = [{
    nn.all_slice of nn.all_reduce, where the rest of the sum is nowhere read
    (Korthikanti et al. 2022). The gradient is nn.all_gather of the ranks' parts,
    which each summand has.
  }];
}

// A `zigzag` consists of equal sections, of which every second has its parts from
// the last rank to the first: of a sequence in two, rank c of C has chunks c and
// 2C-1-c of 2C, so that causal attention is as much work for each. `behind`: the
// part of the rank so far before this one, around the axis.
class NN_PartOp<string mnemonic> : NN_SplitOp<mnemonic,
    (ins UnitAttr:$zigzag, DefaultValuedAttr<I64Attr, "0">:$behind)>;

def NN_PartSliceOp : NN_PartOp<"part_slice"> {
  let summary = "This rank's part of what each rank has of its own";
  let description = [{
    As nn.all_slice, but each rank's gradient is its own, too, to be summed over
    the axis where gradients of parameters are: nn.part_pad.
  }];
}

def NN_PartPadOp : NN_PartOp<"part_pad"> {
  let summary = "This rank's part at its place, with zeros for the others'";
  let description = [{
    The gradient of nn.part_slice, as nn.pad is that of nn.slice.
  }];
}

def NN_PartRollOp : NN_SplitOp<"part_roll", (ins UnitAttr:$inverse)> {
  let summary = "The ranks' parts in an order in which this rank's is the last";
  let description = [{
    `dim` consists of each rank's part in their order; behind this rank's come
    those of the ranks behind it, and then from the first on. Keys of causal
    attention lie so that the last query sees the last of them. The gradient is
    the way back: `inverse`.
  }];
}

def NN_AllToAllOp : NN_MeshOp<"all_to_all"> {
  let summary = "Parts along one dimension become parts along another";
  let description = [{
    Each rank has a part of dimension `join_dim`, which consists of
    `join_sections`, and gives every rank its part of dimension `split_dim`,
    which consists of `split_sections`: then it has all of the first and a part
    of the second, as after an nn.all_gather and a slice. The gradient is the
    way back. Attention over sequences of which each rank has a part is computed
    between two of them, by heads (Ulysses, Jacobs et al. 2023).
  }];
  let args = (ins NN_Tensor:$operand, StrAttr:$axis, I64Attr:$parts,
                       I64Attr:$split_dim, DenseI64ArrayAttr:$split_sections,
                       I64Attr:$join_dim, DenseI64ArrayAttr:$join_sections);
}

def NN_PartShiftOp : NN_MeshOp<"part_shift"> {
  let summary = "What the rank `behind` this one has, around the axis";
  let description = [{
    Each rank sends its operand to the rank so far after it. The gradient is the
    way back.
  }];
  let args = (ins NN_Tensor:$operand, StrAttr:$axis, I64Attr:$parts,
                       I64Attr:$behind);
}

def NN_RingAttentionOp : NN_PureOp<"ring_attention", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "nn.attention of this rank's queries over the keys of all ranks";
  let description = [{
    Each rank has a part of the sequence, of query, key and value alike. Blocks
    of keys and values come from rank after rank (nn.part_shift), and what they
    give is merged by log-sum-exp, so that no rank ever has all keys (Liu et al.
    2023). `zigzag`: sequences are split so, as causal ones must be; then each
    rank has as much to compute.

    A mask has this rank's queries and all keys; first keys are counted in the
    whole sequence. A `window` is said by first keys, too: the attribute tells
    which blocks no query of any rank sees.
  }];
  let args = (ins NN_FloatTensor:$query, NN_FloatTensor:$key,
                       NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       Optional<NN_F32Tensor>:$sink,
                       F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       UnitAttr:$unguarded, UnitAttr:$zigzag, StrAttr:$axis,
                       I64Attr:$parts);
  let results = (outs NN_FloatTensor:$result, NN_F32Tensor:$lse);
  let assemblyFormat = NN_AttentionFormat;
  let hasVerifier = 1;
}

def NN_RingAttentionGradOp : NN_PureOp<"ring_attention_grad", [
    DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "Gradients of nn.ring_attention with respect to query, key and value";
  let description = [{
    Keys and values come again, and their gradients go back to the rank that has
    them, which adds them up.
  }];
  let args = (ins NN_FloatTensor:$query, NN_FloatTensor:$key,
                       NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       NN_FloatTensor:$result, NN_F32Tensor:$lse,
                       NN_FloatTensor:$resultGrad,
                       F32Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F32Attr, "0.0">:$softcap,
                       UnitAttr:$zigzag, StrAttr:$axis, I64Attr:$parts);
  let results = (outs NN_FloatTensor:$queryGrad, NN_FloatTensor:$keyGrad,
                      NN_FloatTensor:$valueGrad);
}

// A vocabulary of which each rank has the words behind those of the rank before.
// Ids and labels count in all of it. The last `padding` rows of the last rank are
// no words, where the ranks do not divide these.

def NN_EmbeddingPartOp : NN_MeshOp<"embedding_part"> {
  let summary = "nn.embedding in this rank's rows: zero where another has the row";
  let description = [{
    So the sum over the ranks is that of the whole table.
  }];
  let args = (ins NN_FloatTensor:$table, NN_IntTensor:$ids, StrAttr:$axis,
                       I64Attr:$parts, DefaultValuedAttr<I64Attr, "0">:$padding);
}

def NN_EmbeddingPartGradOp : NN_PureOp<"embedding_part_grad"> {
  let summary = "The gradient of this rank's rows, as nn.embedding_grad has it";
  let args = (ins NN_IntTensor:$ids, NN_FloatTensor:$resultGrad, StrAttr:$axis,
                       I64Attr:$parts, DefaultValuedAttr<I64Attr, "0">:$padding);
  let results = (outs NN_FloatTensor:$tableGrad);
  let hasVerifier = 1;
}

def NN_LinearCrossEntropyPartOp : NN_PureOp<"linear_cross_entropy_part", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "nn.linear_cross_entropy, of whose vocabulary the weight has this rank's words";
  let description = [{
    The ranks compute the softmax over all words together, and the sum is the
    same on each. Of the operand's gradient each has a summand.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       NN_IntTensor:$labels,
                       UnitAttr:$transpose_weight,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       StrAttr:$axis, I64Attr:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$padding);
  let results = (outs NN_F32Tensor:$sum);
  let hasVerifier = 1;
}

def NN_LinearCrossEntropyPartGradOp
    : NN_PureOp<"linear_cross_entropy_part_grad", [
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "nn.linear_cross_entropy_grad, of this rank's words";
  let args = (ins NN_FloatTensor:$operand, NN_FloatTensor:$weight,
                       NN_IntTensor:$labels, NN_F32Tensor:$seed,
                       UnitAttr:$transpose_weight,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       StrAttr:$axis, I64Attr:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$padding);
  let results = (outs NN_F32Tensor:$sum, NN_FloatTensor:$operandGrad,
                      NN_FloatTensor:$weightGrad);
  let hasVerifier = 1;
}

def NN_PartDropoutOp : NN_PureOp<"part_dropout", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "nn.dropout of a part, with the mask of the whole";
  let description = [{
    The whole has `size` indices along `dim`, which is not the last; `positions`
    are those that the operand has.
  }];
  let args = (ins NN_FloatTensor:$operand, NN_IntTensor:$random,
                       NN_IntTensor:$positions, F64Attr:$ratio, I64Attr:$stream,
                       I64Attr:$samples, I64Attr:$dim, I64Attr:$size);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}

#endif // SHARDONNX_DIALECT_NN_MESH_OPS
