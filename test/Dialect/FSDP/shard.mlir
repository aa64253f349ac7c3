// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_grad_op | FileCheck %s --check-prefixes=CHECK,KEEP
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=no_shard | FileCheck %s --check-prefix=COPY
// RUN: not shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=half_shard 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: half_shard

// Each parameter at a multiple of 256, frozen ones in a section of their own.
// CHECK:      fsdp.unit @root sharded f32 reduce f32 length 256 [
// CHECK-NEXT:   @wte.weight at 0 size 256
// CHECK-NEXT: ] {fsdp.flops = {{[0-9]+}} : i64}
// CHECK-NEXT: fsdp.unit @h.0 sharded f32 reduce f32 length 512 [
// CHECK-NEXT:   @h.0.w at 0 size 64,
// CHECK-NEXT:   @h.0.b at 256 size 8
// FULL-NEXT:  ] reshard_after_forward
// KEEP-NEXT:  ] {fsdp.flops = {{[0-9]+}} : i64}
// CHECK-NEXT: fsdp.unit @h.1 sharded f32 reduce f32 length 256 [
// CHECK-NEXT:   @h.1.w at 0 size 64
// CHECK-NEXT: ] frozen 256 [
// CHECK-NEXT:   @h.1.b at 0 size 8
// FULL-NEXT:  ] reshard_after_forward
// KEEP-NEXT:  ] {fsdp.flops = {{[0-9]+}} : i64}

// CHECK-LABEL: func.func @microbatch
// CHECK:         %[[ROOT:.*]] = fsdp.all_gather @root
// CHECK-NEXT:    %[[WTE:.*]] = fsdp.view %[[ROOT]][@wte.weight] : tensor<32x8xf32>
// CHECK-NEXT:    nn.embedding %[[WTE]]
// CHECK-NEXT:    %[[H0:.*]] = fsdp.all_gather @h.0
// CHECK-NEXT:    %[[W0:.*]] = fsdp.view %[[H0]][@h.0.w]
// CHECK-NEXT:    %[[B0:.*]] = fsdp.view %[[H0]][@h.0.b]
// CHECK-NEXT:    nn.matmul %{{.*}}, %[[W0]]
// CHECK-NEXT:    nn.add %{{.*}}, %[[B0]]
// FULL-NEXT:     fsdp.free %[[H0]]
// CHECK-NOT:     fsdp.free
// The last block's backward follows: it stays gathered.
// CHECK:         %[[H1:.*]] = fsdp.all_gather @h.1
// CHECK-NOT:     fsdp.free
// CHECK:         nn.transpose %[[WTE]]
// CHECK:         nn.loss %
// Backward makes its own transpose of the tied weight.
// CHECK:         nn.transpose %[[WTE]]
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    fsdp.free %[[ROOT]]
// CHECK:         fsdp.reduce_scatter @h.1 [@h.1.w]
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    fsdp.free %[[H1]]
// CHECK:         fsdp.reduce_scatter @h.0 [@h.0.w, @h.0.b]({{.*}} : tensor<8x8xf32>, tensor<8xf32>)
// FULL-NEXT:     %[[H0B:.*]] = fsdp.all_gather @h.0
// FULL-NEXT:     %[[W0B:.*]] = fsdp.view %[[H0B]][@h.0.w]
// FULL-NEXT:     nn.matmul %{{.*}}, %[[W0B]]
// FULL-NEXT:     fsdp.free %[[H0B]]
// KEEP-NEXT:     nn.matmul %{{.*}}, %[[W0]]
// KEEP-NEXT:     fsdp.free %[[H0]]
// CHECK:         fsdp.reduce_scatter @root [@wte.weight]

// Evaluation has no backward: every unit is freed after its last use.
// CHECK-LABEL: func.func @eval
// CHECK:         fsdp.all_gather @root
// CHECK:         fsdp.all_gather @h.0
// CHECK:         fsdp.free
// CHECK:         fsdp.all_gather @h.1
// CHECK-NEXT:    fsdp.view %{{.*}}[@h.1.w]
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    fsdp.free
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    fsdp.free
// CHECK-NOT:     fsdp.reduce_scatter

// CHECK-LABEL: func.func @update
// CHECK-NEXT:    fsdp.clip_grad_norm
// CHECK-NEXT:    fsdp.optimizer @root
// CHECK-NEXT:    fsdp.optimizer @h.0
// CHECK-NEXT:    fsdp.optimizer @h.1
// CHECK-NEXT:    return

// COPY:     fsdp.unit @root replicated
// COPY:     fsdp.unit @h.0 replicated
// COPY-NOT: fsdp.reduce_scatter
// COPY:     fsdp.all_reduce @h.1 [@h.1.w]
// COPY:     fsdp.all_reduce @h.0 [@h.0.w, @h.0.b]
// COPY:     fsdp.all_reduce @root [@wte.weight]
