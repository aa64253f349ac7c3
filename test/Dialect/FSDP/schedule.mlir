// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule="forward-prefetch=0 backward-prefetch=0" | FileCheck %s --check-prefixes=CHECK,ZERO
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard -fsdp-schedule="forward-prefetch=2 backward-prefetch=2" | FileCheck %s --check-prefixes=CHECK,TWO

// CHECK-LABEL: func.func @first_microbatch
// CHECK-NEXT:    fsdp.all_gather_start @root
// CHECK:         fsdp.all_gather_wait @root
// ONE-NEXT:      fsdp.all_gather_start @h.0
// TWO-NEXT:      fsdp.all_gather_start @h.0
// TWO-NEXT:      fsdp.all_gather_start @h.1
// CHECK:         nn.embedding
// ZERO-NEXT:     fsdp.all_gather_start @h.0
// CHECK-NEXT:    fsdp.all_gather_wait @h.0
// ONE-NEXT:      fsdp.all_gather_start @h.1
// ZERO:          fsdp.all_gather_start @h.1
// ZERO-NEXT:     fsdp.all_gather_wait @h.1
// ONE:           fsdp.all_gather_wait @h.1
// TWO:           fsdp.all_gather_wait @h.1
// CHECK:         nn.loss_scale
// TWO-NEXT:      fsdp.all_gather_start @h.0
// CHECK-NEXT:    nn.cross_entropy_grad
// CHECK-NEXT:    nn.loss %
// Backward's gathers start in backward: with 1 when block 1 begins, with 2 when
// the root does (above).
// CHECK:         fsdp.grad_acquire @root
// CHECK-NEXT:    nn.matmul
// ONE-NEXT:      fsdp.all_gather_start @h.0
// CHECK-NEXT:    nn.compare
// CHECK-NEXT:    nn.select
// CHECK-NEXT:    fsdp.grad_acquire @h.1
// CHECK-NEXT:    %[[DW1:.*]] = nn.matmul
// CHECK-NEXT:    fsdp.reduce_start @h.1 [@h.1.w](%[[DW1]] : tensor<8x8xf32>){{$}}
// CHECK-NEXT:    nn.matmul
// CHECK:         fsdp.grad_acquire @h.0
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.reduce_sum
// CHECK-NEXT:    fsdp.reduce_start @h.0
// ZERO-NEXT:     fsdp.all_gather_start @h.0
// CHECK-NEXT:    fsdp.all_gather_wait @h.0
// CHECK:         fsdp.reduce_start @root
// CHECK-NEXT:    return

// CHECK-LABEL: func.func @next_microbatch
// CHECK:         fsdp.reduce_start @h.1 {{.*}} {accumulate}
// CHECK:         fsdp.reduce_start @h.0 {{.*}} {accumulate}
// CHECK:         fsdp.reduce_start @root {{.*}} {accumulate}

// CHECK-LABEL: func.func @eval
// CHECK-NEXT:    fsdp.all_gather_start @root
// CHECK-NEXT:    fsdp.all_gather_wait @root

// CHECK-LABEL: func.func @update
// CHECK-NEXT:    fsdp.reduce_wait @h.1
// CHECK-NEXT:    fsdp.reduce_wait @h.0
// CHECK-NEXT:    fsdp.reduce_wait @root
// CHECK-NEXT:    fsdp.clip_grad_norm
