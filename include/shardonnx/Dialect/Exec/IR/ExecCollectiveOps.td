// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives and the update: one op for each call of the runtime's ABI.

#ifndef SHARDONNX_DIALECT_EXEC_COLLECTIVE_OPS
#define SHARDONNX_DIALECT_EXEC_COLLECTIVE_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

class Exec_UnitOp<string mnemonic, string doc>
    : Exec_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = doc;
  let arguments = (ins FlatSymbolRefAttr:$unit);
  let assemblyFormat = "$unit attr-dict";
}

def Exec_GatherStartOp : Exec_UnitOp<"gather_start",
    "Begins to make the unit's parameters whole">;
def Exec_GatherWaitOp : Exec_UnitOp<"gather_wait",
    "The unit's parameters are whole after it">;
def Exec_GatherFreeOp : Exec_UnitOp<"gather_free",
    "This rank reads the unit's parameters no more">;
def Exec_GatherReshardOp : Exec_UnitOp<"gather_reshard",
    "As gather_free, but each rank keeps its part of the unit's reshard_group">;
def Exec_GradAcquireOp : Exec_UnitOp<"grad_acquire",
    "The unit's gradient buffer may be written after it">;
def Exec_ReduceStartOp : Exec_UnitOp<"reduce_start",
    "Begins to sum the unit's gradients over ranks"> {
  let arguments = (ins FlatSymbolRefAttr:$unit, UnitAttr:$accumulate);
  let assemblyFormat = "$unit (`accumulate` $accumulate^)? attr-dict";
}
def Exec_ReduceWaitOp : Exec_UnitOp<"reduce_wait",
    "The owned slice of the unit's reduced gradient is complete after it">;

class Exec_AxisOp<string mnemonic, list<string> methods>
    : Exec_CallOp<mnemonic, !listconcat(["getTraffic"], methods),
                  [Exec_HasWorkspace]> {
  let arguments = (ins Exec_Read:$operand, Exec_Write:$result,
                       Optional<AnyMemRef>:$workspace, I64Attr:$call,
                       StrAttr:$axis, I64Attr:$parts,
                       DefaultValuedAttr<I64Attr, "0">:$dim,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$sections,
                       DefaultValuedAttr<I64Attr, "0">:$join_dim,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$join_sections,
                       DefaultValuedAttr<I64Attr, "0">:$behind,
                       UnitAttr:$zigzag);
  let assemblyFormat = [{
    $operand `into` $result (`workspace` $workspace^ `:` type($workspace))?
    attr-dict `:` type($operand) `,` type($result)
  }];
  let extraClassDeclaration = [{
    /// Whether anything goes from rank to rank.
    bool sends() { return callSends(getCall()); }
  }];
}

def Exec_AxisCollectiveOp : Exec_AxisOp<"axis_collective",
    ["getInPlacePairs"]> {
  let summary = "What the ranks of an axis compute together, on contiguous buffers";
  let description = [{
    `call` is ShxAxisCall's number. In a sum both buffers may be one. Of an
    all-to-all `dim` is what is split, `join_dim` what is joined. `behind` and
    `zigzag` are ShxAxisCollective's.
  }];
}
def Exec_AxisStartOp : Exec_AxisOp<"axis_start", []> {
  let summary = "Begins an axis_collective, which its axis_wait ends";
  let description = [{
    Until then nothing else touches the result and the workspace, or writes the
    operand. Waits come in the order of starts.
  }];
}
def Exec_AxisWaitOp : Exec_AxisOp<"axis_wait", []> {
  let summary = "The first axis_start that has none has ended after it";
  let description = [{ Has the operands and attributes of its start. }];
}

def Exec_ClipGradNormOp : Exec_Op<"clip_grad_norm"> {
  let summary = "Global norm of the reduced gradients and the clip factor";
  let assemblyFormat = "attr-dict";
}
def Exec_WeightStepsOp : Exec_Op<"weight_steps"> {
  let summary = "Takes the steps of weights that products read in 8 bits";
  let assemblyFormat = "attr-dict";
}
def Exec_OptimizerOp : Exec_UnitOp<"optimizer",
    "Updates the owned slice of the unit from its reduced gradient">;
def Exec_MuonStartOp : Exec_UnitOp<"muon_start",
    "Takes the gradients of the unit's matrices into their momentum, for their owners">;
def Exec_MuonFinishOp : Exec_UnitOp<"muon_finish",
    "Updates the owned slice of the unit's matrices by what their owners have made orthogonal">;

#endif // SHARDONNX_DIALECT_EXEC_COLLECTIVE_OPS
