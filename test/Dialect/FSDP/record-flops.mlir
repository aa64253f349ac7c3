// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block -fsdp-shard -fsdp-schedule | FileCheck %s

// A matmul of 4x8 by 8x8 is 2*4*8*8 = 512 FLOPs, the head 2*4*8*32 = 2048;
// three times that for forward and backward, recomputed or not.
// CHECK: fsdp.unit @root
// CHECK-NEXT: size 256
// CHECK-NEXT: ] {fsdp.flops = 6144 : i64}
// CHECK: fsdp.unit @h.0
// CHECK: ] reshard_after_forward {fsdp.flops = 1536 : i64}
// CHECK: fsdp.unit @h.1
// CHECK: ] reshard_after_forward {fsdp.flops = 1536 : i64}
