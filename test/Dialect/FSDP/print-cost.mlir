// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-print-cost -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block -fsdp-shard -fsdp-schedule -fsdp-print-cost -o /dev/null | FileCheck %s --check-prefix=AGAIN
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=no_shard -fsdp-schedule -fsdp-print-cost=json=true -o /dev/null | FileCheck %s --check-prefix=JSON

// A matmul of 4x8 by 8x8 is 2*4*8*8 = 512 FLOPs, the head 2*4*8*32 = 2048;
// backward does each twice. h.0 is 2 intervals of 256 elements, 4 bytes each.
// CHECK:      unit layout trainable frozen gathered bytes forward FLOPs step FLOPs
// CHECK-NEXT: root sharded 256 0 1024 2048 6144{{$}}
// CHECK-NEXT: h.0 sharded 72 0 2048 512 1536{{$}}
// CHECK-NEXT: h.1 sharded 64 8 2048 512 1536{{$}}
// CHECK-NEXT: model FLOPs of a microbatch: 9216
// CHECK-NEXT: collectives of a microbatch, in order:
// CHECK-NEXT:   all_gather root 1024 bytes
// CHECK-NEXT:   all_gather h.0 2048 bytes
// CHECK-NEXT:   all_gather h.1 2048 bytes
// CHECK-NEXT:   reduce_scatter h.1 1024 bytes
// CHECK-NEXT:   reduce_scatter h.0 2048 bytes
// CHECK-NEXT:   all_gather h.0 2048 bytes
// CHECK-NEXT:   reduce_scatter root 1024 bytes
// CHECK-NEXT: collectives of an evaluation, in order:
// CHECK-NEXT:   all_gather root 1024 bytes

// Recomputation costs time, but is not credited as model FLOPs.
// AGAIN: h.0 sharded 72 0 2048 512 2048{{$}}
// AGAIN: model FLOPs of a microbatch: 9216

// JSON:     "microbatch": [
// JSON-NOT: all_gather
// JSON:     "bytes": 1024,
// JSON-NEXT: "kind": "all_reduce",
// JSON-NEXT: "unit": "h.1"
// JSON:     "model_flops": 9216
// JSON:     "layout": "replicated"
