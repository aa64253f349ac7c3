// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on units: who belongs where, collectives, schedule, and their checks.

#ifndef SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES
#define SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def AssignUnitsPass : Pass<"nn-assign-units", "mlir::ModuleOp"> {
  let summary = "Names the FSDP unit of every op and parameter";
  let description = [{
    Runs on the forward nn graph; sets the unit of their places, which what
    differentiation makes inherits. The unit of an op comes from the module in
    its place, that of a parameter from its state-dict name or else from its
    users. A parameter used in more than one unit belongs to the first of
    them that the user named, else, as all that no unit claims, to the unit
    `root`. An op without a path goes with what it reads.

    - `block`: the shortest prefix of the path that ends in `.NUMBER`
      (`transformer.h.0`); where no path has one, the repeated structure of
      the graph.
    - `size:N`: of what nothing else claims, consecutive parameters, in order
      of use, until they have N elements.
    - anything else is a regular expression that matches a module's whole path;
      of nested matches a parameter belongs to the innermost.

    The module attribute `nn.unit_rules` holds the entries of a configuration's
    `units`; they come before the words of the option. What they set for each
    unit becomes the attribute `nn.unit_policies`.

    With `block` alone, a table of embeddings of 2^28 elements or more that
    nothing else reads is a unit of its own.

    A parameter whose whole name matches one of `ignore` belongs to the unit
    `ignored`, which every rank holds whole, in f32.

    Preserves numerics bit for bit: only attributes change.
  }];
  let options = [
    ListOption<"unit", "unit", "std::string",
               "block, size:N, or regular expressions over module paths">,
    ListOption<"ignore", "ignore", "std::string",
               "Regular expressions over whole parameter names">
  ];
}

def RecomputePass : Pass<"fsdp-recompute", "mlir::ModuleOp"> {
  let summary = "Decides what each unit's backward computes again; executes blocks again";
  let description = [{
    Writes the attribute `fsdp.recompute_plan` of the module, unless it has one:

    - `none`: no unit in it.
    - `block`: every unit other than root. What the unit's backward needs of its
      own forward is computed again from the unit's inputs, right before that
      backward (torch.utils.checkpoint around each block). This pass does so.
    - `every:N`: every N-th of these units, the N-th one first.
    - `selective`: nn-recompute keeps the results of matrix products and
      attention, and computes the rest of these units again.

    Copies are marked `recompute` in their places, so that no pass merges them
    with the originals.

    Preserves numerics bit for bit: the same ops on the same values.
  }];
  let options = [
    Option<"recompute", "recompute", "std::string", "\"none\"",
           "none, block, every:N or selective">
  ];
}

def MergeUnitsPass : Pass<"fsdp-merge-units", "mlir::ModuleOp"> {
  let summary = "Makes one unit of small neighbours";
  let description = [{
    With the module's attribute `fsdp.merge_below`, an i64: of units that follow
    one another in forward, root left out, two become one where the parameters
    of either have fewer bytes than that; the result goes on so with the next
    one. Names are joined by `+`. Units that are read in different dtypes are
    not merged.

    Preserves numerics bit for bit: only attributes change.
  }];
}

def MakeUnitsPass : Pass<"fsdp-make-units", "mlir::ModuleOp"> {
  let summary = "Lays the parameters out in units";
  let description = [{
    Makes one fsdp.unit of all parameters whose places name it, in the order of
    their first use, each at a multiple of 256 elements; those that an nn.concat
    joins along their first axis follow one another without a gap. param_dtype is the
    widest type in which the step reads the unit's parameters, reduce_dtype the
    widest type of their gradients. A trainable parameter that gets no gradient
    becomes frozen, as PyTorch's optimizer skips it, with a warning. What a
    unit's policy says of resharding comes before the strategy, and before the
    module's `fsdp.keep`, which names units to keep. `ignored` is replicated.
    With `muon`, the matrices of blocks come first: parameters of two dimensions
    in a module whose path has a number (`transformer.h.0.mlp`), or without a
    path in a unit other than the root, that are no table of embeddings.

    Preserves numerics bit for bit.
  }];
  let options = [
    Option<"strategy", "strategy", "::shardonnx::Strategy",
           "::shardonnx::Strategy::FullShard", "Who keeps what",
           "::shardonnx::SpelledValues<::shardonnx::Strategy>()">,
    Option<"muon", "muon", "bool", "false",
           "The matrices of blocks are Muon's: they come first">
  ];
  let dependentDialects = ["::shardonnx::fsdp::FSDPDialect"];
}

def RecreateParametersPass
    : Pass<"fsdp-recreate-parameters", "mlir::ModuleOp"> {
  let summary = "Backward makes its own transposes and casts of parameters";
  let description = [{
    A pure function of parameters (cast, transpose, 1 + w) that forward made and
    backward reads would keep a whole copy of a gathered parameter alive
    between the two. Each unit's backward makes it again instead.

    Preserves numerics bit for bit.
  }];
}

def GatherPass : Pass<"fsdp-gather", "mlir::ModuleOp"> {
  let summary = "Puts all_gather, view and free around the uses of parameters";
  let description = [{
    Replaces each nn.get by a view of its gathered unit. A unit that reshards
    is gathered before its first use and freed after its last, in forward and
    again in backward; others once, from first to last use. A unit whose
    backward follows its forward without another unit between stays gathered
    (FSDP2 keeps the last block so). Where a parameter of a unit that reshards
    is read again behind other units (a tied weight), the unit is freed between
    the two.

    Preserves numerics bit for bit.
  }];
  let dependentDialects = ["::shardonnx::fsdp::FSDPDialect"];
}

def ReducePass : Pass<"fsdp-reduce", "mlir::ModuleOp"> {
  let summary = "Reduces each unit's gradients after the last of them";
  let description = [{
    Replaces the nn.grad ops of a unit by one reduce_scatter (sharded units) or
    all_reduce (replicated ones). A gradient in a narrower type than the unit's
    reduce_dtype is cast.

    Does not preserve numerics bit for bit: sums over ranks depend on their
    number.
  }];
  let dependentDialects = ["::shardonnx::fsdp::FSDPDialect"];
}

def MakeUpdatePass : Pass<"fsdp-make-update", "mlir::ModuleOp"> {
  let summary = "Makes @update: clip, then the optimizer unit by unit";
  let description = [{
    Does not preserve numerics: it is where the weights change.
  }];
  let dependentDialects = ["::shardonnx::fsdp::FSDPDialect",
                           "::mlir::func::FuncDialect"];
}

def KeepUnitsPass : Pass<"fsdp-keep-units", "mlir::ModuleOp"> {
  let summary = "Gathers `kept` units once a step, behind their optimizer";
  let description = [{
    In the functions that read a kept unit, its gathers become a wait at the
    first of them, and its frees go. @update frees it, runs its optimizer, and
    starts the gather for the step after it; the runtime issues the first. A
    unit without trainable parameters is gathered once for all.

    Preserves numerics bit for bit.
  }];
}

def ScheduleGathersPass : Pass<"fsdp-schedule-gathers", "mlir::ModuleOp"> {
  let summary = "Splits each all_gather into a start ahead of time and a wait";
  let description = [{
    With a prefetch distance N, the gather of a unit starts when the compute of
    the unit N before it begins; with 0, where it is needed. Backward's gathers
    start in backward. The first gather of a function starts at its entry. The
    order of starts is the order of waits, the same on every rank.

    With the module's attribute `fsdp.gather_budget`, an i64, each gather starts
    as early as the compute of a unit at which the units that are gathered
    then, kept ones too, have no more bytes than that; at the latest where it
    is needed.

    Preserves numerics bit for bit.
  }];
  let options = [
    Option<"forwardPrefetch", "forward-prefetch", "unsigned", "1",
           "Units ahead in forward">,
    Option<"backwardPrefetch", "backward-prefetch", "unsigned", "1",
           "Units ahead in backward">
  ];
}

def ScheduleReductionsPass
    : Pass<"fsdp-schedule-reductions", "mlir::ModuleOp"> {
  let summary = "Splits each reduction into grad_acquire, start and wait";
  let description = [{
    grad_acquire stands before the first op that writes a gradient of the unit,
    the start where the synchronous reduction was. Before a unit acquires its
    gradients, all but `gradient-buffers` - 1 of the started reductions are
    awaited (FSDP2 has two such buffers); the rest is awaited in @update.

    With `unsharded`, every unit has a gradient buffer of its own over the whole
    step, into which the microbatches add; all reductions are awaited in
    @update. Marks the module `fsdp.unsharded_accumulation`.

    Preserves numerics bit for bit.
  }];
  let options = [
    Option<"gradientBuffers", "gradient-buffers", "unsigned", "2",
           "Units whose gradients may exist at once">,
    Option<"unsharded", "unsharded", "bool", "false",
           "Gradients stay whole over a step's microbatches">
  ];
}

def SplitMicrobatchPass : Pass<"fsdp-split-microbatch", "mlir::ModuleOp"> {
  let summary = "Makes @first_microbatch and @next_microbatch of @microbatch";
  let description = [{
    The first writes the reduced gradients, the next ones add to them; where
    the module accumulates unsharded, they add to the gradients themselves.

    Preserves numerics bit for bit.
  }];
}

def PrintCostPass : Pass<"fsdp-print-cost", "mlir::ModuleOp"> {
  let summary = "Prints parameters, bytes and FLOPs of each unit, and collectives";
  let description = [{
    The cost model that `shardonnx inspect` shows, as text or JSON on standard
    output. Bytes sent are those of a step of so many ranks and microbatches.
    Changes nothing.
  }];
  let options = [
    Option<"json", "json", "bool", "false", "Print JSON">,
    Option<"ranks", "ranks", "unsigned", "2", "Ranks of the run">,
    Option<"replicas", "replicas", "unsigned", "1",
           "Groups of ranks, of which each has the whole model">,
    Option<"microbatches", "microbatches", "unsigned", "1",
           "Microbatches of a step">
  ];
}

def RecordFlopsPass : Pass<"fsdp-record-flops", "mlir::ModuleOp"> {
  let summary = "Notes the model FLOPs of each unit on it";
  let description = [{
    Sets `fsdp.flops`: three times the forward FLOPs of matrix products and
    attention (PaLM's rule). The manifest carries them to the log and to
    `inspect`. Preserves numerics bit for bit: only attributes change.
  }];
}

def OrderPass : Pass<"fsdp-order", "mlir::ModuleOp"> {
  let summary = "Computes weight gradients as soon as the output's gradient is there";
  let description = [{
    A matrix product whose result only becomes a parameter's gradient moves up
    to right behind the last of its operands: the activation that it reads is
    then free before the gradient of that activation is made. What it writes
    lies in the unit's gradient buffer, which is there anyway.

    Where what the next unit computes again has come to stand before the end of
    a unit's backward, the rest of that moves up before it: else its parameters
    would be gathered once more for it.

    Preserves numerics bit for bit.
  }];
}

def DeferGradientsPass : Pass<"fsdp-defer-gradients", "mlir::ModuleOp"> {
  let summary = "Hides the last reduction behind the products of the one before";
  let description = [{
    Nothing of a step is left to run beside the reduction of the unit whose
    gradients are there last, which may be a large table of embeddings. So the
    products that give the gradients of the unit before it, and are read by
    nothing else, are computed behind that unit's last gradient: what they read
    lives a little longer, at the end of backward, where little else does.

    Preserves numerics bit for bit.
  }];
}

def OverlapAxesPass : Pass<"fsdp-overlap-axes", "mlir::ModuleOp"> {
  let summary = "Gives collectives of tensor and context axes work beside them";
  let description = [{
    A collective begins where its operand is there, and what reads its result
    waits for it. This pass moves each up to the last place from which the work
    before its first reader takes as long as it does, so the next block of a
    ring is sent while one is computed. Of ops that would wait for one, the
    next of the same unit that has all it reads goes first, else one of the
    last few products that only become a parameter's gradient, which then
    stands behind the collective's start. How long things take is counted in
    FLOPs, bytes of memory and bytes sent of the GPU that the program is for.

    Preserves numerics bit for bit.
  }];
  let options = [
    Option<"flopsPerByteSent", "flops-per-byte-sent", "double", "kFlopsPerByteSent",
           "Of products, in the time in which an axis sends a byte">,
    Option<"movedPerByteSent", "moved-per-byte-sent", "double", "kMovedPerByteSent",
           "Bytes through the GPU's memory, likewise">
  ];
}

def ChunkAxesPass : Pass<"fsdp-chunk-axes", "mlir::ModuleOp"> {
  let summary = "Cuts forward's products beside collectives of the tensor axis";
  let description = [{
    In forward, and where it is computed again, the product that reads what
    nn.all_gather gives waits for all of it, and nn.reduce_scatter for all of
    the product before it. This pass cuts
    both into chunks of rows, of each rank's part as many: while a chunk is
    multiplied the next is gathered, or the one before it is summed. A gather's
    products join their chunks' rows; a sum's chunks are those of this rank's
    part side by side. Only 2-D nn.matmul of which nothing else reads the
    gathered rows, or what is summed.

    Of 1, 2, 4 and 8 chunks those are taken that are expected to be the fastest:
    a product of few rows fills the GPU's processors badly, rows are copied,
    and each chunk is a collective more. `chunks` says how many instead.

    Each row is computed as before: preserves numerics bit for bit, where the
    library adds up a product of fewer rows in the same order.
  }];
  let dependentDialects = ["nn::NNDialect"];
  let options = [
    Option<"flopsPerByteSent", "flops-per-byte-sent", "double", "kFlopsPerByteSent",
           "Of products, in the time in which an axis sends a byte">,
    Option<"movedPerByteSent", "moved-per-byte-sent", "double", "kMovedPerByteSent",
           "Bytes through the GPU's memory, likewise">,
    Option<"processors", "processors", "int64_t", "kProcessors",
           "That the tiles of a product's result go over in waves">,
    Option<"tileRows", "tile-rows", "int64_t", "kTileRows",
           "Of such a tile">,
    Option<"tileColumns", "tile-columns", "int64_t", "kTileColumns",
           "Likewise">,
    Option<"bytesPerChunk", "bytes-per-chunk", "double", "kBytesPerChunk",
           "That are sent while a chunk's collective and product begin">,
    Option<"chunks", "chunks", "unsigned", "0",
           "So many, wherever they divide the rows; 0: as expected to be the "
           "fastest">
  ];
}

def GatherEarlyPass : Pass<"fsdp-gather-early", "mlir::ModuleOp"> {
  let summary = "Gathers what a step reads first behind its optimizer";
  let description = [{
    In @first_microbatch nothing runs before the first units' gathers, so they
    would be waited for. Those that start before the first op that computes are
    started in the @update before, each behind its unit's optimizer (without
    trainable parameters behind the clip), and the unit is marked `early`. They
    run beside the other units' optimizers. The runtime issues them before the
    first step, and again where an evaluation came between.

    Preserves numerics bit for bit.
  }];
}

def VerifyFSDPPass : Pass<"verify-fsdp", "mlir::ModuleOp"> {
  let summary = "Refuses a step whose collectives do not pair";
  let description = [{
    In every function: each gather is begun once, awaited once and freed once;
    nothing reads a view, or a reshape, transpose, slice or broadcast of one,
    after the free; a kept unit is awaited before it is read, and @update alone
    frees and gathers it, around its optimizer; an early one is gathered there
    for @first_microbatch; a function that reduces does so once for every unit with
    trainable parameters; no gradient is written before its grad_acquire.
    In @update: every reduction that the step left open is awaited before the
    clip, which comes before the optimizer of every unit, each once.
  }];
}

#endif // SHARDONNX_DIALECT_FSDP_TRANSFORMS_PASSES
