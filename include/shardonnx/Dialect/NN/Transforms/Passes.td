// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on nn: on the forward graph before it is differentiated, and those that
// form kernels of the differentiated step.

#ifndef SHARDONNX_DIALECT_NN_PASSES
#define SHARDONNX_DIALECT_NN_PASSES

include "mlir/Pass/PassBase.td"

def CSEAcrossModulesPass : Pass<"nn-cse-across-modules", "mlir::ModuleOp"> {
  let summary = "What several modules compute alike is computed once, by the first";
  let description = [{
    Common subexpressions whose ops differ in nothing but the module that they
    were written in (masks, tables of positions): --cse keeps them apart.

    Preserves numerics bit for bit.
  }];
}

def DemoteF64Pass : Pass<"nn-demote-f64", "mlir::ModuleOp"> {
  let summary = "What the graph computes in f64 from data is computed in f32";
  let description = [{
    No program computes in f64. What is known was computed in it before; of
    constants that are left, those beyond f32 become its largest numbers, as
    they are bounds. The first op whose rounding changes is named in a warning.
    The raise runs it but for --strict-numerics, where f64 is refused
    (IREE has the same as --iree-input-demote-f64-to-f32).

    Preserves numerics: no, it rounds to f32.
  }];
}

def AttachLossPass : Pass<"nn-attach-loss", "mlir::ModuleOp"> {
  let summary = "Ends @forward in a loss, by what --loss and --logits say";
  let description = [{
    Takes the function's outputs away and reports one loss instead
    (`nn.loss`), with an argument for the labels where the graph has none. The
    loss of a linear head is fused into `nn.linear_cross_entropy`, so that
    logits are never whole. docs/nn.md says what counts as a loss in the graph.

    Preserves numerics: yes, up to the order of sums inside the fused loss.
  }];
  let options = [
    Option<"kind", "kind", "std::string", "",
           "causal-lm, cross-entropy, mse, graph, or empty: by the outputs">,
    Option<"logits", "logits", "std::string", "",
           "The output that the loss is computed from">,
    Option<"fuseHead", "fuse-head", "bool", "true",
           "Compute a linear head and its loss together, in chunks of rows">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def DocumentMasksPass : Pass<"nn-document-masks", "mlir::ModuleOp"> {
  let summary = "Attention within documents of packed samples, by --document-separator";
  let description = [{
    Each causal attention gets the first key that each query sees, an argument
    of kind `first_keys` that the data reader fills from the tokens. What mixes
    positions otherwise (attention that was not recognised, or has a mask of its
    own) is an error, as is a loss that does not count labels.

    Preserves numerics: no, that is what it is for.
  }];
  let options = [
    Option<"separator", "separator", "int64_t", "-1",
           "The token that ends a document; negative: nothing is done">,
    Option<"maxDocuments", "max-documents", "int64_t", "-1",
           "Documents a sample, on average over a microbatch, that a library's "
           "attention is planned for; negative: one for 256 tokens, 8 at "
           "least">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def AssignDtypesPass : Pass<"nn-assign-dtypes", "mlir::ModuleOp"> {
  let summary = "Gives parameters and activations their dtype in memory";
  let description = [{
    As FSDP2's MixedPrecisionPolicy: `nn.get` yields the parameter dtype, float
    inputs are cast to it, and activations follow. f32 stay: statistics of
    norms, log-sum-exp, losses, tables, and what is computed from those alone.
    Float outputs that are left are cast to the output dtype. The reduce dtype
    becomes the module attribute `nn.reduce_dtype`.

    Preserves numerics: no, unless every dtype is f32.
  }];
  let options = [
    Option<"paramDtype", "param-dtype", "std::string", "\"f32\"",
           "f32, bf16 or f16">,
    Option<"reduceDtype", "reduce-dtype", "std::string", "\"f32\"",
           "Element type of parameter gradients">,
    Option<"outputDtype", "output-dtype", "std::string", "",
           "Element type of float outputs; empty: as computed">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def SplitSequencesPass : Pass<"nn-split-sequences", "mlir::ModuleOp"> {
  let summary = "The graph of one rank of the context axis, by --mesh";
  let description = [{
    From the embeddings of tokens and positions on, everything that is computed
    of tokens is split along the sequence, as each op says for itself
    (ShardableOpInterface): a rank has one part of each sample. What is whole
    and read there (tables of positions, labels) is nn.part_slice's. The loss is
    each rank's sum over its own tokens. Parameters stay whole: their gradients
    are summed over this axis where they are over the shard axis.

    Attention is computed in one of three ways, all of a module in the one that
    `attention` names, or is predicted to be the fastest on `device` (what is
    sent with the latency of each step, blocks by the rates of their lengths,
    what adds their results), or without a device sends least. By heads (`ulysses`, Jacobs et
    al. 2023): each rank has some over the whole sequence, between
    nn.all_to_all of query, key and value and one of the result, so that causal
    masks, windows and documents are as without a mesh; key/value heads that are
    fewer than ranks are repeated. In a `ring`: nn.ring_attention, of sequences
    split in a zigzag where any attention is causal. By `all-gather`: each rank
    has the rows of its queries over all keys and values, which `auto` takes
    where neither of the others can be had.

    An op that mixes tokens otherwise is an error that names it, as is a
    sequence that the ranks do not divide. Runs before nn-partition, which
    splits what this leaves.

    Preserves numerics: up to the order of sums over tokens.
  }];
  let options = [
    Option<"context", "context", "int64_t", "1",
           "Ranks that have a part of each sequence; 1: nothing is split">,
    Option<"tensor", "tensor", "int64_t", "1",
           "Ranks that each of these shares its heads with (nn-partition)">,
    Option<"attention", "attention", "std::string", "\"auto\"",
           "How attention meets the keys of other ranks: auto, ulysses, ring or "
           "all-gather">,
    Option<"device", "device", "std::string", "\"\"",
           "Whose time is predicted, as in plan's --device; empty: nobody's">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def PartitionPass : Pass<"nn-partition", "mlir::ModuleOp"> {
  let summary = "The graph of one rank of the tensor axis, by --mesh";
  let description = [{
    Linear layers whose results go, element by element or head by head, into
    another linear layer are split as Megatron has it (Shoeybi et al. 2019): the
    first by columns (query, key and value by heads, gate and up), the second by
    rows. Of the sum of what the ranks have of its result, each keeps its tokens
    (nn.reduce_scatter), for which it computes what follows, as Korthikanti et
    al. 2022 do; nn.all_gather has all of them where columns are split, or where an
    op needs them. Where the ranks do not divide the tokens, nn.all_reduce makes
    the whole sum. What is
    whole and read in between is nn.vary's, whose gradient is summed. Every op
    says for itself what it does with operands that are split
    (ShardableOpInterface), so no model has a plan of its own: a layer is split
    where the split reaches such a second one through ops that take it.

    A parameter that is read in parts alone becomes its part (`nn.split`). A
    vocabulary that is looked up by tokens, or read by a loss that is a product's
    (nn.linear_cross_entropy), is split by words where nothing reads it otherwise:
    nn.embedding_part, nn.linear_cross_entropy_part. The last rank has fewer of
    words that the ranks do not divide.
    Other lookups and losses are whole on every rank, as are
    products of which an op behind them needs the whole; `inspect` says so. That
    the ranks do not divide the heads of an attention is an error.

    Runs when units and dtypes are known, before products are joined and before
    differentiation, so that the gradient comes from the ops' own.

    Preserves numerics: up to the order of sums along what is split.
  }];
  let options = [
    Option<"replicate", "replicate", "int64_t", "0",
           "Replicas that the mesh names; 0: left to the start">,
    Option<"shard", "shard", "int64_t", "0", "The same, ranks that share one">,
    Option<"context", "context", "int64_t", "1",
           "Ranks that have a part of each sequence (nn-split-sequences)">,
    Option<"tensor", "tensor", "int64_t", "1",
           "Ranks that compute one sample together; 1: nothing is split">,
    Option<"tensorPlan", "tensor-plan", "std::string", "",
           "JSON file of regexes over parameters: colwise, rowwise, replicate">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def JoinProductsPass : Pass<"nn-join-products", "mlir::ModuleOp"> {
  let summary = "Linear layers that read the same rows become one product";
  let description = [{
    Query, key and value, or gate and up: their weights ([out, in]) are put side
    by side by an nn.concat, biases alike if all have one, and each takes its
    columns of the one result. Differentiated, that is one product for all their
    gradients and one for the gradient of the rows. fsdp-make-units lays
    parameters that are joined so out without a gap, so that nothing is copied.

    Parameters that something else reads (tied weights), of another unit or
    another dtype, frozen beside trained ones, or stored [in, out] stay apart;
    the module's report of what was found (`inspect`) says so. Runs when units
    and dtypes are known, before differentiation.

    Preserves numerics: no, the gradient of the rows is summed in another order.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def JoinRotariesPass : Pass<"nn-join-rotaries", "::mlir::func::FuncOp"> {
  let summary = "Heads that turn by the same angles become one rotary embedding";
  let description = [{
    Query and key that are columns side by side of one product
    (nn-join-products), each read by a rotary embedding with the same tables,
    are turned together, and each takes its heads. Differentiated, that is one
    kernel in each direction instead of two.

    Preserves numerics: yes.
  }];
}

def GroupMatmulsPass : Pass<"nn-group-matmuls", "mlir::ModuleOp"> {
  let summary = "Experts are multiplied with where they lie";
  let description = [{
    A mixture of experts is exported as a matrix looked up for each row and a
    product with it. The row then chooses its matrix in one op, and none is
    copied.

    Preserves numerics: no, the product may be summed in another order.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def GroupExpertsPass : Pass<"nn-group-experts", "mlir::ModuleOp"> {
  let summary = "Experts that are modules of their own become a stack";
  let description = [{
    Of a mixture whose experts each compute every row, of which a condition on
    an index leaves one expert's, each row is computed by the expert that it
    chose alone: weights stand side by side (which copies none, see
    nn-join-products), products are nn.grouped_matmul of the stack. Experts may
    be chains of products and elementwise ops, with biases.

    Preserves numerics: no, what a row has of several experts is added in the
    order of its indices, not of the experts.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def AddAdaptersPass : Pass<"nn-add-adapters", "mlir::ModuleOp"> {
  let summary = "Low-rank adapters beside the products of modules, by --lora";
  let description = [{
    A product x·W of rows with a two-dimensional weight becomes
    x·W + s·dropout(x)·Aᵀ·Bᵀ with two new parameters A [rank, in] and B [out,
    rank] and s = alpha / rank, or alpha / √rank with `rslora` (Hu et al. 2021;
    PEFT's lora.Linear). Every other parameter is frozen, unless regular
    expressions of nn-freeze say which are. A is drawn uniformly within
    ±1/√in (PEFT's kaiming_uniform with a = √5), B is zero.

    With `dora` the sum is multiplied with m / |W + s·B·A|, lengths of rows: m
    [out] is a third parameter, at first |W|, and no gradient flows through the
    denominator (Liu et al. 2024; PEFT's DoraLinearLayer). With dropout only
    what the adapter adds is of dropout(x).

    Experts in one tensor [experts, out, in] have A [experts · rank, in] and
    B [out, rank · experts] (PEFT's lora.ParamWrapper): each row looks up its
    expert's two matrices, as it does the expert's own. Neither they nor
    routers, whose result chooses experts (`nn.top_k`), know dropout or `dora`.

    `all-linear` takes every such product but the last ones, behind which there
    is no other: a model's head. A weight that several products read has one
    adapter.

    Preserves numerics: yes, as long as B is zero.
  }];
  let options = [
    Option<"rank", "rank", "int64_t", "0",
           "Rank of the adapters; 0: nothing is done">,
    Option<"alpha", "alpha", "double", "8", "LoraConfig's lora_alpha">,
    Option<"dropout", "dropout", "double", "0", "LoraConfig's lora_dropout">,
    Option<"rslora", "rslora", "bool", "false", "LoraConfig's use_rslora">,
    Option<"dora", "dora", "bool", "false", "LoraConfig's use_dora">,
    Option<"freezesBase", "freezes-base", "bool", "true",
           "Freeze every parameter that is no adapter's">,
    ListOption<"targets", "target", "std::string",
               "all-linear, or regular expressions over whole module paths, and "
               "names of experts in one tensor">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def PackBasePass : Pass<"nn-pack-base", "mlir::ModuleOp"> {
  let summary = "The weights of a frozen base in few bits, by --base-dtype";
  let description = [{
    A frozen weight of a linear layer that is no head (nn-add-adapters marks
    them) becomes a packed parameter: its readers get words, which nn.unpack
    decodes to the dtype that they had, so shards and gathers are of the words.
    A weight [in, out] is packed as [out, in], as bitsandbytes has it, and its
    readers read it transposed. One that some products read in one way and some
    in the other stays as it is. Runs behind nn-partition: of a weight that ranks
    share, each packs its part.

    Preserves numerics: no, weights are rounded.
  }];
  let options = [
    Option<"packing", "packing", "std::string", "\"\"",
           "bf16, int8 or nf4; empty: nothing is done">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def F8ProductsPass : Pass<"nn-f8-products", "mlir::ModuleOp"> {
  let summary = "Linear layers multiply floats of 8 bits, by --matmul-dtype";
  let description = [{
    A product of rows with a two-dimensional weight, of a block's unit and with
    sizes that are multiples of 16, becomes an nn.f8_matmul of operands that
    nn.f8_round has rounded, with scales that are powers of two: one for the
    tensor (`fp8`), or one for each row of the product and each column
    (`fp8:rowwise`). A unit's policy goes before the option. Products that the
    cost model has not computed `least-gain` times as fast on the device, with
    their gradients and what rounds operands, stay as they are. What multiplies 8
    bits, and what of these units does not and why, is told by `inspect`.

    Preserves numerics: no, operands are rounded.
  }];
  let options = [
    Option<"dtype", "dtype", "std::string", "\"param\"",
           "param (nothing is done), fp8 or fp8:rowwise">,
    Option<"device", "device", "std::string", "\"h100\"",
           "Whose time is predicted, as in plan's --device">,
    Option<"leastGain", "least-gain", "double", "0",
           "How many times as fast products of 8 bits must be; 0: none are left">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def GatherCodesPass : Pass<"nn-gather-codes", "mlir::ModuleOp"> {
  let summary = "Weights of products of 8 bits are gathered as these multiply them";
  let description = [{
    Of units whose gathers have 8 bits by `dtype` (`fp8`) or their policy: where
    only nn.f8_matmul by tensors reads matrices in bf16, and all else is norms
    and biases, the matrices are marked (`nn.in_codes`) and gathered without
    blocks of their own, since products round them anyway. What else there is
    becomes part of the unit `vectors`, which stays gathered between forward and
    backward.

    Preserves numerics: weights are rounded once, by their products' steps, not
    in blocks before.
  }];
  let options = [
    Option<"dtype", "dtype", "std::string", "\"param\"",
           "As --gather-dtype: param, bf16, int8 or fp8">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def FreezePass : Pass<"nn-freeze", "mlir::ModuleOp"> {
  let summary = "Makes parameters constants of the training";
  let description = [{
    A parameter whose whole name matches one of the regular expressions is no
    longer trainable: no gradient, no optimizer state. Where `trainable` has
    regular expressions, what none of them matches is not, either. A pattern
    that matches no parameter is an error. Those of nn-add-adapters are left
    out.

    Preserves numerics: yes.
  }];
  let options = [
    ListOption<"regexes", "regex", "std::string",
               "Regular expressions over whole parameter names">,
    ListOption<"trainable", "trainable", "std::string",
               "The same, of those that are trained">
  ];
}

def DecomposePass : Pass<"nn-decompose", "::mlir::func::FuncOp"> {
  let summary = "Takes norms, softmax, rotary and losses apart";
  let description = [{
    Every op with DecomposableOpInterface becomes elementwise, reduce and shape
    ops. Runs after differentiation. Preserves numerics bit for bit.
  }];
}

def NormalizeReductionsPass
    : Pass<"nn-normalize-reductions", "::mlir::func::FuncOp"> {
  let summary = "Writes each reduction over the last axis, or over all others";
  let description = [{
    A reduction over other axes becomes one of these two with reshapes and
    transposes around it; a total is taken in two steps. Sums are taken in
    another order.
  }];
}

def RecomputePass : Pass<"nn-recompute", "::mlir::func::FuncOp"> {
  let summary = "Backward computes values again rather than keep them";
  let description = [{
    Of all values that backward needs from forward, keeps a set of fewest bytes
    from which elementwise ops alone give the rest (a minimum cut; of several
    the one that computes least), and nn.all_gather, of which a rank has a part and
    keeps no more. Backward begins with what depends on
    nn.loss_scale; parameters, inputs and constants cost nothing. Runs before
    the units are gathered, since it makes backward read parameters.

    In a unit that the module's `fsdp.recompute_plan` calls `selective`, every
    pure op may be computed again but library calls: matrix products, attention,
    losses, lookups, and sums over ranks of a mesh. Where the plan has a price P,
    these may be too, at the price of their FLOPs, where a byte kept costs P FLOPs: what is kept and what
    is computed together are the cheapest (the same cut, with ops as edges).
    What another unit reads is always kept.

    A value that library calls of both directions read, as a norm's result, is
    written by forward anyway; to compute it again is to write it again. In a
    unit whose plan is the word `unit`, all of these are kept, in one that it does
    not name the smallest, as long as they make what the unit keeps no larger
    than by `keep-percent`.

    With `mlps-again` the products that make hidden values of MLPs cost nothing
    to run again: these are then computed in chunks (nn-chunk-mlps), of
    which backward has one at a time.

    Preserves numerics bit for bit.
  }];
  let options = [
    Option<"keepPercent", "keep-percent", "unsigned", "0",
           "What a unit may keep beyond the fewest bytes to write less, percent">,
    Option<"mlpsAgain", "mlps-again", "bool", "false",
           "Hidden values of MLPs are computed again, products too">
  ];
}

def FuseEpiloguesPass : Pass<"nn-fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "Bias, GELU, their gradients and residual sums become part of matrix products";
  let description = [{
    For a library that does them in one call (cuBLASLt): a bias that another
    library call reads, bias and GELU with the pre-activation as second result,
    GELU's gradient, a bias's gradient beside that of the weight, and the sum of
    a product and a tensor that is in memory anyway, as a residual stream is: a
    bias that is another one for every row. Runs after
    nn-recompute: what it saved for backward is replaced by a value of the same
    size, and GELU's output is computed again from the pre-activation where it
    was. A sum of a product and a bias is rounded once instead of twice, and
    GELU is the library's: bf16 and f16 only. Products of rounded operands
    (nn.f8_round) take sums alone: what follows takes its largest values in the
    kernel that computes it.

    With `deepest`, for a library that only adds to what is there (CPUs), it
    fuses one sum alone: that of a product of few depths, as an adapter's is,
    and of another product that nothing else reads. The values are the same.
  }];
  let options = [
    Option<"deepest", "deepest", "int64_t", "0",
           "Only sums of two products in f32, one of at most this depth; 0: "
           "all epilogues">
  ];
}

def StoreF8Pass : Pass<"nn-store-f8", "::mlir::func::FuncOp"> {
  let summary = "Products of rounded operands multiply floats of 8 bits in memory";
  let description = [{
    For a library that multiplies 8 bits (cuBLASLt from sm_89 on): a product
    both of whose operands nn.f8_round gives becomes nn.f8_product of what these
    hold, with their steps. An operand that is summed along its rows is an
    nn.f8_cast, which kernels fuse; one that is summed along its columns is
    written transposed by nn.f8_cast_matrix, beside the rows where both are
    read, or by the kernel over elements that computes it where its step is
    known before. Steps of rows are taken only with `row-steps` (sm_90); a step of a
    weight becomes nn.f8_weight_step, which the update has; that of another
    tensor becomes nn.f8_tensor_step, which the kernel that computes the tensor
    takes. Preserves numerics up to the order of sums: steps are powers of two.
  }];
  let options = [
    Option<"rowSteps", "row-steps", "bool", "true",
           "The library takes a step for each row">
  ];
}

def StoreCodesPass : Pass<"nn-store-codes", "mlir::ModuleOp"> {
  let summary = "Weights that are gathered in 8 bits are read in these";
  let description = [{
    Behind nn-store-f8: where nothing but its casts reads the weights of a unit
    that nn-gather-codes has marked, nn.get gives what these cast to. Products
    along a weight's columns read a transposed copy of it. Preserves numerics:
    the update rounds by the same step.
  }];
}

def FusePass : Pass<"nn-fuse", "::mlir::func::FuncOp"> {
  let summary = "Groups elementwise ops and reductions into nn.fused kernels";
  let description = [{
    Producers with consumers, then groups that read the same tensors. Groups
    never form a cycle through other ops, and never read parameters of two
    units; what reads none may join its consumer or producer in another. Sums
    over leading axes take clones of the elementwise ops that feed
    them, or, with `sums-beside-rows` (GPUs), join
    the kernel over rows that computes what they add up: a norm's gradient reads
    its tensors once. Preserves numerics but for roundings that a value kept in
    registers does not see (bf16, f16).
  }];
  let options = [
    Option<"sumsBesideRows", "sums-beside-rows", "bool", "false",
           "A kernel over rows may sum columns, too">
  ];
}

def ChunkMlpsPass : Pass<"nn-chunk-mlps", "mlir::ModuleOp"> {
  let summary = "MLPs are computed some rows at a time, by --mlp-chunks";
  let description = [{
    Of a long sequence the hidden values of an MLP are the most that lives at a
    time where blocks are computed again. This pass cuts the rows of each MLP into
    so many chunks, in forward and in backward: products that begin it, kernels,
    and products that read the hidden values stand once for each chunk, one chunk
    behind the other. Chunks of results are rows of one tensor (nn.concat), those
    of operands views (nn.slice); gradients of weights are sums whose
    summands fsdp-to-exec has the products add to one place.

    An MLP is what linear layers make of rows, elementwise kernels of that alone,
    until linear layers have read it all: one hidden layer with any
    activation, gates, biases and adapters. What needs to know where a
    row is (dropout within), products of 8 bits and experts that tokens choose
    stay whole. A number of chunks that does not divide the rows is an error.

    Runs behind the fuser, so kernels are the same. Preserves numerics: no, the
    gradients of weights and biases are summed in another order.
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", "1", "Into how many; 1: stay whole">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def VerifyPlacesPass : Pass<"nn-verify-places", "mlir::ModuleOp"> {
  let summary = "Refuses a graph in which an op has lost its unit or its phase";
  let description = [{
    Where parameters have units, every op has one that computes from parameters.
    An op is of backward exactly where it reads what backward computes: a pass
    that drops the mark of what it replaces, or leaves one behind, is at fault.
  }];
}

#endif // SHARDONNX_DIALECT_NN_PASSES
