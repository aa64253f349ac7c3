// Each block of Inputs/two-blocks.mlir has 8·8 + 8 f32 parameters: 288 bytes.
// RUN: sed 's/^module {/module attributes {fsdp.merge_below = 289 : i64} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-merge-units | FileCheck %s --check-prefix=MERGED
// RUN: sed 's/^module {/module attributes {fsdp.merge_below = 288 : i64} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-merge-units | FileCheck %s --check-prefix=APART
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-merge-units | FileCheck %s --check-prefix=APART

// Root is no neighbour.
// MERGED: @wte.weight {{.*}}place = #nn.place<@root>
// MERGED: @h.0.w {{.*}}place = #nn.place<@"h.0+h.1">
// MERGED: @h.1.b {{.*}}place = #nn.place<@"h.0+h.1">
// MERGED: func.func @microbatch
// MERGED-NOT: @h.1}
// MERGED: func.func @eval
// MERGED-NOT: @h.1}

// APART: @h.0.w {{.*}}place = #nn.place<@h.0>
// APART: @h.1.w {{.*}}place = #nn.place<@h.1>

// One gather for both, in a step that verifies.
// RUN: sed 's/^module {/module attributes {fsdp.merge_below = 289 : i64} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-shard -fsdp-schedule | FileCheck %s --check-prefix=STEP
// STEP: fsdp.unit @"h.0+h.1"
// STEP-LABEL: func.func @first_microbatch
// STEP: fsdp.all_gather_start @"h.0+h.1"
// STEP-NOT: fsdp.all_gather_start
// STEP-LABEL: func.func @next_microbatch
