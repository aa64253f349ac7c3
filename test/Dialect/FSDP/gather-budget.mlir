// How early gathers start under a budget of gathered bytes. Units of
// Inputs/two-blocks.mlir: root 256 f32 (1024 bytes), h.0 and h.1 512 (2048
// bytes each; every parameter begins at a multiple of 256). Root lives all the
// way, so both blocks together with it take 5120 bytes.
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard > %t.mlir
// RUN: sed 's/^module {/module attributes {fsdp.gather_budget = 5120 : i64} {/' %t.mlir \
// RUN:   | shardonnx-opt -fsdp-schedule="forward-prefetch=0 backward-prefetch=0" | FileCheck %s --check-prefix=BOTH
// RUN: sed 's/^module {/module attributes {fsdp.gather_budget = 5119 : i64} {/' %t.mlir \
// RUN:   | shardonnx-opt -fsdp-schedule | FileCheck %s --check-prefix=ONE
// RUN: sed 's/^module {/module attributes {fsdp.gather_budget = 0 : i64} {/' %t.mlir \
// RUN:   | shardonnx-opt -fsdp-schedule | FileCheck %s --check-prefix=LATE

// BOTH-LABEL: func.func @first_microbatch
// BOTH:       fsdp.all_gather_start @root
// BOTH:       fsdp.all_gather_wait @root
// BOTH-NEXT:  fsdp.all_gather_start @h.0
// BOTH-NEXT:  fsdp.all_gather_start @h.1

// The second block's only when the first is freed.
// ONE-LABEL: func.func @first_microbatch
// ONE:       fsdp.all_gather_wait @root
// ONE-NEXT:  fsdp.all_gather_start @h.0
// ONE-NOT:   fsdp.all_gather_start
// ONE:       fsdp.free
// ONE:       fsdp.all_gather_start @h.1
// ONE-NEXT:  fsdp.all_gather_wait @h.1

// LATE-LABEL: func.func @first_microbatch
// LATE:       fsdp.all_gather_wait @root
// LATE-NEXT:  fsdp.view
// LATE:       fsdp.all_gather_start @h.0
// LATE-NEXT:  fsdp.all_gather_wait @h.0
// LATE:       fsdp.all_gather_start @h.1
// LATE-NEXT:  fsdp.all_gather_wait @h.1

// Units that are named are kept: they do not reshard.
// RUN: sed 's/^module {/module attributes {fsdp.keep = ["h.0"]} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-make-units | FileCheck %s --check-prefix=KEEP
// RUN: sed 's/^module {/module attributes {fsdp.keep = ["h.0"]} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-make-units=strategy=no_shard | FileCheck %s --check-prefix=WHOLE
// KEEP: fsdp.unit @h.0 sharded
// KEEP: ] kept
// KEEP: fsdp.unit @h.1 sharded
// KEEP: ] reshard_after_forward
// WHOLE-NOT: kept
