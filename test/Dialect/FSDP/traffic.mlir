// What each of 4 ranks sends in a step, against a count by hand.
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=full_shard -fsdp-schedule -fsdp-print-cost=ranks=4 -o /dev/null | FileCheck %s --check-prefix=ZERO3
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_grad_op -fsdp-schedule -fsdp-print-cost=ranks=4 -o /dev/null | FileCheck %s --check-prefix=ZERO2
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=full_shard -fsdp-schedule -fsdp-print-cost="ranks=4 microbatches=3" -o /dev/null | FileCheck %s --check-prefix=ZERO3A
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_opt -fsdp-schedule -fsdp-print-cost="ranks=4 microbatches=3" -o /dev/null | FileCheck %s --check-prefix=OPT
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_opt -fsdp-schedule=unsharded-accumulation=true -fsdp-print-cost="ranks=4 microbatches=3" -o /dev/null | FileCheck %s --check-prefix=ZERO1
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=no_shard -fsdp-schedule -fsdp-print-cost=ranks=4 -o /dev/null | FileCheck %s --check-prefix=DDP
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=hybrid_shard -fsdp-schedule -fsdp-print-cost="ranks=4 replicas=2 microbatches=3" -o /dev/null | FileCheck %s --check-prefix=HYBRID
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=hybrid_shard_zero2 -fsdp-schedule -fsdp-print-cost="ranks=4 replicas=2" -o /dev/null | FileCheck %s --check-prefix=HYBRID2
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_opt -fsdp-print-cost="ranks=4 microbatches=3" -o /dev/null | FileCheck %s --check-prefix=OPT
// RUN: not shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-print-cost="ranks=4 replicas=3" -o /dev/null 2>&1 | FileCheck %s --check-prefix=DIVIDE

// The model in f32: root 256 elements, h.0 512, h.1 256 trained and 256 frozen.
//   gathered: root 1024 bytes, h.0 2048, h.1 2048: 5120
//   gradients: root 1024, h.0 2048, h.1 1024: 4096
// A rank sends its quarter of a gather to three others, and three quarters of
// its gradients: 3/4 of the bytes. An all-reduce is both.

// ZeRO-2, shard_grad_op: every unit is gathered once.
//   gather 5120 * 3/4 = 3840, reduce 4096 * 3/4 = 3072
// ZERO2:      bytes that each of 4 ranks sends in a step:
// ZERO2-NEXT:   all_gather      3840{{$}}
// ZERO2-NEXT:   reduce_scatter  3072{{$}}
// ZERO2-NEXT:   all_reduce      0{{$}}

// ZeRO-3, full_shard: h.0 is gathered again for backward; h.1, whose backward
// follows at once, and the root are not. 3840 + 2048 * 3/4 = 5376.
// ZERO3:      bytes that each of 4 ranks sends in a step:
// ZERO3-NEXT:   all_gather      5376{{$}}
// ZERO3-NEXT:   reduce_scatter  3072{{$}}
// ZERO3-NEXT:   all_reduce      0{{$}}

// Three microbatches gather and reduce three times: 16128, 9216.
// ZERO3A:      bytes that each of 4 ranks sends in a step:
// ZERO3A-NEXT:   all_gather      16128{{$}}
// ZERO3A-NEXT:   reduce_scatter  9216{{$}}

// shard_opt gathers once a step however many microbatches there are: 3840; it
// reduces each of three, or with unsharded accumulation (ZeRO-1) only the last.
// OPT:      bytes that each of 4 ranks sends in a step:
// OPT-NEXT:   all_gather      3840{{$}}
// OPT-NEXT:   reduce_scatter  9216{{$}}
// OPT-NEXT:   all_reduce      0{{$}}
// ZERO1:      bytes that each of 4 ranks sends in a step:
// ZERO1-NEXT:   all_gather      3840{{$}}
// ZERO1-NEXT:   reduce_scatter  3072{{$}}

// no_shard: all-reduce of 4096 bytes, twice 3/4 of it: 6144.
// DDP:      bytes that each of 4 ranks sends in a step:
// DDP-NEXT:   all_gather      0{{$}}
// DDP-NEXT:   reduce_scatter  0{{$}}
// DDP-NEXT:   all_reduce      6144{{$}}

// Two groups of two: gathers and reductions stay in a group, half of the bytes:
//   3 * 7168 / 2 = 10752, 3 * 4096 / 2 = 6144
// The sums that a rank owns, half of 4096 bytes of f32, are all-reduced between
// two replicas once a step: 2 * 1/2 * 2048 = 2048.
// HYBRID:      bytes that each of 4 ranks sends in a step:
// HYBRID-NEXT:   all_gather      10752{{$}}
// HYBRID-NEXT:   reduce_scatter  6144{{$}}
// HYBRID-NEXT:   all_reduce      2048{{$}}
// HYBRID2:      bytes that each of 4 ranks sends in a step:
// HYBRID2-NEXT:   all_gather      2560{{$}}
// HYBRID2-NEXT:   reduce_scatter  2048{{$}}
// HYBRID2-NEXT:   all_reduce      2048{{$}}

// DIVIDE: error: 3 replicas do not divide 4 ranks
