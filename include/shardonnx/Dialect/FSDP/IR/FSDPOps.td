// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fsdp dialect: units, who owns what, and the collectives of a step.

#ifndef SHARDONNX_DIALECT_FSDP_OPS
#define SHARDONNX_DIALECT_FSDP_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def FSDP_Dialect : Dialect {
  let name = "fsdp";
  let cppNamespace = "::shardonnx::fsdp";
  let summary = "Units of parameters, their collectives, and the update";
  let description = [{
    What PyTorch FSDP2 does with hooks, as ops. A unit is one contiguous buffer
    of which rank r owns the r-th contiguous slice; the world size is not known
    here. Every op that touches a unit's buffers has side effects, so the order
    of these ops in a function is the order on every rank.

    Synchronous form (`fsdp-shard`): all_gather, free, reduce_scatter,
    all_reduce. Asynchronous form (`fsdp-schedule`): all_gather_start,
    all_gather_wait, grad_acquire, reduce_start, reduce_wait. A gather begins,
    ends and is freed in one function; the wait of a reduction may stand in
    @update, so starts and waits pair by unit.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

class FSDP_Op<string mnemonic, list<Trait> traits = []>
    : Op<FSDP_Dialect, mnemonic, traits>;

def FSDP_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32]>;
// Or in 8 bits, or the words of a packed one.
def FSDP_ParameterTensor
    : StaticShapeTensorOf<[F16, BF16, F32, F8E4M3FN, I32]>;

def FSDP_Sharded : I32EnumAttrCase<"sharded", 0>;
def FSDP_Replicated : I32EnumAttrCase<"replicated", 1>;
def FSDP_Layout : I32EnumAttr<"Layout", "Who owns a unit's elements",
    [FSDP_Sharded, FSDP_Replicated]> {
  let cppNamespace = "::shardonnx::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_LayoutAttr : EnumAttr<FSDP_Dialect, FSDP_Layout, "layout">;

def FSDP_IntervalAttr : AttrDef<FSDP_Dialect, "Interval"> {
  let mnemonic = "interval";
  let summary = "Where a parameter lies in its unit, in elements";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$parameter,
                        "int64_t":$offset, "int64_t":$size);
  let assemblyFormat = "`<` $parameter `,` $offset `,` $size `>`";
}

def FSDP_GatheredType : TypeDef<FSDP_Dialect, "Gathered"> {
  let mnemonic = "gathered";
  let summary = "A unit whose parameters are whole on this rank";
}

def FSDP_IntervalArrayAttr
    : TypedArrayAttrBase<FSDP_IntervalAttr, "intervals of a unit">;

def FSDP_UnitOp : FSDP_Op<"unit", [Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Parameters that are gathered and reduced together";
  let description = [{
    `length` elements hold the trainable parameters, each at a multiple of 256
    (Layout.h) or, where it is joined with the one before it, right behind that,
    in the order of their first use; the `frozen` section holds the
    frozen ones, kept in param_dtype, gathered in the same call and never
    reduced. `sharded`: rank r owns the r-th slice; `replicated` (no_shard):
    every rank owns the whole, its all_gather is a local cast at most and its
    reduction an all-reduce. `reshard_after_forward`: freed after the unit's
    forward and gathered again for its backward; with `reshard_group` K each
    rank keeps a K-th of it between the two, and K ranks gather it again.
    `matrices`: the first so many elements are whole matrices that Muon updates.
    `kept`: gathered once a step, behind its optimizer, and whole through all
    microbatches. `early`: what a step reads first of all is gathered in the
    @update before it.

        fsdp.unit @h.0 sharded f32 reduce f32 length 768 [
          @h.0.c.weight at 0 size 512,
          @h.0.c.bias at 512 size 16
        ] reshard_after_forward
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FSDP_LayoutAttr:$layout,
      TypeAttr:$param_dtype, TypeAttr:$reduce_dtype,
      I64Attr:$length, FSDP_IntervalArrayAttr:$intervals,
      DefaultValuedAttr<I64Attr, "0">:$frozen_length,
      DefaultValuedAttr<FSDP_IntervalArrayAttr, "{}">:$frozen_intervals,
      UnitAttr:$reshard_after_forward,
      DefaultValuedAttr<I64Attr, "0">:$reshard_group, UnitAttr:$kept,
      UnitAttr:$early, DefaultValuedAttr<I64Attr, "0">:$matrix_length);
  let assemblyFormat = [{
    $sym_name `` $layout $param_dtype `reduce` $reduce_dtype
    `length` $length custom<Intervals>($intervals)
    (`matrices` $matrix_length^)?
    (`frozen` $frozen_length^ custom<Intervals>($frozen_intervals))?
    (`reshard_after_forward` $reshard_after_forward^)?
    (`reshard_group` $reshard_group^)? (`kept` $kept^)?
    (`early` $early^)? attr-dict
  }];
  let hasVerifier = 1;
}

class FSDP_UnitUser<string mnemonic, string doc>
    : FSDP_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = doc;
  let arguments = (ins FlatSymbolRefAttr:$unit);
  let assemblyFormat = "$unit attr-dict";
}

class FSDP_Gather<string mnemonic, string doc> : FSDP_UnitUser<mnemonic, doc> {
  let results = (outs FSDP_GatheredType:$gathered);
}

def FSDP_AllGatherOp : FSDP_Gather<"all_gather",
    "Makes every parameter of the unit whole, in param_dtype">;
def FSDP_AllGatherStartOp : FSDP_UnitUser<"all_gather_start",
    "Begins an all_gather on the gather queue">;
def FSDP_AllGatherWaitOp : FSDP_Gather<"all_gather_wait",
    "Waits for the unit's last started all_gather">;

def FSDP_ViewOp : FSDP_Op<"view", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "One parameter of a gathered unit, in place";
  let arguments = (ins FSDP_GatheredType:$gathered,
                       FlatSymbolRefAttr:$parameter);
  let results = (outs FSDP_ParameterTensor:$result);
  let assemblyFormat = "$gathered `[` $parameter `]` attr-dict `:` type($result)";
}

def FSDP_FreeOp : FSDP_Op<"free"> {
  let summary = "This rank reads the gathered unit no more";
  let description = [{
    `reshard`: behind the forward of a unit with a `reshard_group`; each rank
    keeps its part of that group until the next gather.
  }];
  let arguments = (ins FSDP_GatheredType:$gathered, UnitAttr:$reshard);
  let assemblyFormat = "$gathered (`reshard` $reshard^)? attr-dict";
}

def FSDP_GradAcquireOp : FSDP_UnitUser<"grad_acquire",
    "The unit's gradient buffer may be written from here on">;

class FSDP_Reduce<string mnemonic, string doc> : FSDP_Op<mnemonic, [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = doc;
  let description = [{
    gradients[i] is that of parameters[i], in reduce_dtype: the memory planner
    has its producer write it into the unit's gradient buffer. With
    `accumulate` the owned slice is added to what earlier microbatches left;
    with `accumulate_unsharded` the gradients are, in the gradient buffer, and
    the last microbatch of the step reduces them.
  }];
  let arguments = (ins FlatSymbolRefAttr:$unit,
      TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$parameters,
      Variadic<FSDP_FloatTensor>:$gradients, UnitAttr:$accumulate,
      UnitAttr:$accumulate_unsharded);
  let assemblyFormat = [{
    $unit $parameters `(` $gradients `:` type($gradients) `)` attr-dict
  }];
}
def FSDP_ReduceScatterOp : FSDP_Reduce<"reduce_scatter",
    "Sums the unit's gradients over ranks; each rank keeps its slice">;
def FSDP_AllReduceOp : FSDP_Reduce<"all_reduce",
    "Sums the unit's gradients over ranks; each rank keeps the whole">;
def FSDP_ReduceStartOp : FSDP_Reduce<"reduce_start",
    "Begins the unit's reduction on the reduce queue (its kind is the unit's layout)">;
def FSDP_ReduceWaitOp : FSDP_UnitUser<"reduce_wait",
    "Waits for the unit's last started reduction">;

def FSDP_ClipGradNormOp : FSDP_Op<"clip_grad_norm"> {
  let summary = "Global norm of all reduced gradients and the clip factor (torch clip_grad_norm_)";
  let assemblyFormat = "attr-dict";
}
def FSDP_OptimizerOp : FSDP_UnitUser<"optimizer",
    "Updates the owned slice of the unit from its reduced gradient">;
def FSDP_WeightStepsOp : FSDP_Op<"weight_steps"> {
  let summary = "Takes the steps of weights that products read in 8 bits";
  let description = [{
    Behind all optimizers: of the largest absolute values of what they have
    written, on all ranks (nn.f8_weight_step). Units that are gathered in 8 bits
    get these; their gathers stand behind it.
  }];
  let assemblyFormat = "attr-dict";
}
def FSDP_MuonStartOp : FSDP_UnitUser<"muon_start",
    "Takes the gradients of the unit's matrices into their momentum, for their owners">;
def FSDP_MuonFinishOp : FSDP_UnitUser<"muon_finish",
    "Updates the owned slice of the unit's matrices by what their owners have made orthogonal">;

#endif // SHARDONNX_DIALECT_FSDP_OPS
