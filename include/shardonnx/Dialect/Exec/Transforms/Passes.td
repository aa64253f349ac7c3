// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on the exec dialect.

#ifndef SHARDONNX_DIALECT_EXEC_PASSES
#define SHARDONNX_DIALECT_EXEC_PASSES

include "mlir/Pass/PassBase.td"

def ReuseInPlacePass : Pass<"exec-reuse-in-place", "::mlir::ModuleOp"> {
  let summary = "Writes results where the last-read operand lies";
  let description = [{
    A kernel over rows, or a cross-entropy with its gradient, whose operand
    nobody reads later writes a result of the same layout in its place. Kernels
    with several results do so only without reductions: then each element is
    read before it is written. Preserves numerics bit for bit.
  }];
}

def OverlapAxesPass : Pass<"exec-overlap-axes", "::mlir::ModuleOp"> {
  let summary = "Splits collectives of tensor and context axes into starts and waits";
  let description = [{
    An exec.axis_collective that sends becomes an exec.axis_start in its place,
    and an exec.axis_wait before the first op that touches its result or writes
    its operand, at the latest before the function ends. Waits come in the
    order of starts, so what was started before the one that is needed is
    awaited with it. What lives between the two, exec-plan-memory sees.
    Preserves numerics bit for bit.
  }];
}

def GrowLossChunksPass : Pass<"exec-grow-loss-chunks", "::mlir::ModuleOp"> {
  let summary = "Lets a loss in chunks of rows use what memory its peak leaves";
  let description = [{
    chunk_rows of each exec.linear_cross_entropy grow until the workspace fills
    what the private space has left at that op, given the largest sum of what
    lives anywhere in the step. Sums over rows are taken in larger parts.
  }];
  let dependentDialects = ["::shardonnx::exec::ExecDialect"];
}

def OffloadActivationsPass
    : Pass<"exec-offload-activations", "::mlir::ModuleOp"> {
  let summary = "Keeps what forward leaves to backward in host memory";
  let description = [{
    Of each function that has both: a private buffer between its last use in
    forward and the next one. The copy to the host starts behind the first of
    these two; its wait stands where the copy has ended by then, and the memory
    is others'. The copy back starts so early that it is there when the second
    one runs.

    What one unit leaves to another in forward (the inputs of blocks) always
    goes. It is there for one more unit at most, on either side, and where the
    links are too slow for that, the step waits. Of other buffers, those go
    first that are kept longest, as long as no copy makes the step wait and
    none is under way from forward into backward. Where no input has to wait,
    inputs may stand in the queue behind these.

    Ops take the time of their FLOPs or of the bytes that they touch, whichever
    is longer. Preserves numerics bit for bit.
  }];
  let dependentDialects = ["::shardonnx::exec::ExecDialect"];
  let options = [
    Option<"flopsPerSecond", "flops-per-second", "double", "5e14",
           "Of products">,
    Option<"bytesPerSecond", "bytes-per-second", "double", "2.5e12",
           "Of the device's memory">,
    Option<"hostBytesPerSecond", "host-bytes-per-second", "double", "5e10",
           "Of the links to the host, in each direction">,
    Option<"copySeconds", "copy-seconds", "double", "1e-5",
           "What a copy takes beside its bytes">,
    Option<"inputsOnly", "inputs-only", "bool", "false",
           "Only what one unit leaves to another">
  ];
}

def PlanMemoryPass : Pass<"exec-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives every buffer an offset in its space";
  let description = [{
    Private buffers (exec.alloc) become exec.buffers; each fsdp.unit gets the
    offset of its gathered parameters (`exec.param_offset`) and of its
    gradients (`exec.grad_offset`); exec.space ops tell the sizes of the
    spaces, that of the host where something lies there. Lifetimes come from the order of ops. Preserves numerics.

    In a program for CPUs each unit also gets a place in the private space for
    its gradients (`exec.grad_place`), which a step of one rank and one
    microbatch uses: where buffers lie that are dead by grad_acquire, and
    beyond the space only for what these leave no room for. Each sharded unit
    gets another place (`exec.slice_place`) for what one of several ranks owns of
    the reduced gradients, where the space has room from reduce_start on.
  }];
  let dependentDialects = ["::shardonnx::exec::ExecDialect"];
}

def VerifyExecPass : Pass<"verify-exec", "::mlir::ModuleOp"> {
  let summary = "Refuses plans whose live buffers overlap, and reads of what is not there";
  let description = [{
    No two live buffers of a space overlap; nothing lies beyond its space; a
    private buffer is written before it is read; parameters are read only
    between a gather's wait and its free; gradients are written only between
    grad_acquire and reduce_start; while a buffer is copied to the host nobody
    writes it, while it is copied back nobody touches it, and every copy is
    awaited; what is exchanged along an axis is left alone from axis_start to
    axis_wait, and each start is awaited in the order of starts. Changes
    nothing.
  }];
}

def PrintPlanPass : Pass<"exec-print-plan", "::mlir::ModuleOp"> {
  let summary = "Prints the planned spaces, what lives at their peaks, and collectives";
  let description = [{
    Text, or the manifest's "spaces" and "functions" as JSON, on standard
    output. Changes nothing.
  }];
  let options = [Option<"json", "json", "bool", "false", "Print JSON">];
}

#endif // SHARDONNX_DIALECT_EXEC_PASSES
