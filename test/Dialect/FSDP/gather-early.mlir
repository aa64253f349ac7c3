// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule=gather-early=true | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule="gather-early=true forward-prefetch=0" | FileCheck %s --check-prefix=LATE
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=no_shard -fsdp-schedule=gather-early=true | FileCheck %s --check-prefix=WHOLE
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule | FileCheck %s --check-prefix=WHOLE

// What starts before anything computes starts in the update before: the root,
// and the block that is prefetched beside it.
// CHECK: fsdp.unit @root {{.*}}[
// CHECK: ] early
// CHECK: fsdp.unit @h.0 {{.*}}[
// CHECK: ] reshard_after_forward early
// CHECK: fsdp.unit @h.1 {{.*}}[
// CHECK: ] reshard_after_forward {fsdp.flops
// CHECK-LABEL: func.func @first_microbatch
// CHECK-NOT:     fsdp.all_gather_start
// CHECK:         fsdp.all_gather_wait @root
// CHECK-NOT:     fsdp.all_gather_start @{{root|h.0}}
// CHECK:         fsdp.all_gather_wait @h.0
// CHECK:         fsdp.all_gather_start @h.1
// A block that was freed is gathered again for backward.
// CHECK:         fsdp.all_gather_start @h.0
// CHECK-LABEL: func.func @next_microbatch
// CHECK:         fsdp.all_gather_start @root
// CHECK-LABEL: func.func @eval
// CHECK:         fsdp.all_gather_start @root
// CHECK-LABEL: func.func @update
// CHECK:         fsdp.clip_grad_norm
// CHECK-NEXT:    fsdp.optimizer @root
// CHECK-NEXT:    fsdp.all_gather_start @root
// CHECK-NEXT:    fsdp.optimizer @h.0
// CHECK-NEXT:    fsdp.all_gather_start @h.0
// CHECK-NEXT:    fsdp.optimizer @h.1
// CHECK-NEXT:    return

// No more than the schedule has whole at once.
// LATE-LABEL: func.func @update
// LATE:         fsdp.optimizer @root
// LATE-NEXT:    fsdp.all_gather_start @root
// LATE-NOT:     fsdp.all_gather_start
// LATE:         return

// Nothing is waited for, or nobody has asked for it.
// WHOLE-LABEL: func.func @update
// WHOLE-NOT:     fsdp.all_gather_start
// WHOLE:         return
