// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From tensors to buffers.

#ifndef SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES
#define SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES

include "mlir/Pass/PassBase.td"

def FSDPToExecPass : Pass<"fsdp-to-exec", "::mlir::ModuleOp"> {
  let summary = "Makes buffers and calls of a scheduled and fused step";
  let description = [{
    Reshapes, transposes, slices and broadcasts become strides; what a concat
    joins and what is handed over as a gradient is written there by its
    producer where the producer can, else copied. Each nn.fused is outlined to
    an exec.kernel, equal ones to one. Graph inputs become exec.input ops and
    tables known at compile time exec.constants. The module's `exec.target` says which
    device the calls are of. Preserves numerics.
  }];
  let options = [
    Option<"target", "target", "::shardonnx::TargetKind",
           /*default=*/"::shardonnx::TargetKind::CPU",
           "whose library calls: cpu or cuda",
           "::shardonnx::SpelledValues<::shardonnx::TargetKind>()">,
    Option<"tf32", "tf32", "bool", /*default=*/"false",
           "f32 products may round their operands to TF32 (cuda)">,
    Option<"deterministic", "deterministic", "bool", /*default=*/"false",
           "library calls give the same bits in every run (cuda)">,
  ];
  let dependentDialects = ["::shardonnx::exec::ExecDialect"];
}

#endif // SHARDONNX_CONVERSION_FSDPTOEXEC_PASSES
