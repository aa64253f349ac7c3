// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block -fsdp-shard -fsdp-schedule | FileCheck %s

// Recomputation reads the block's parameters, so its gather comes first; with
// the frozen bias too.
// CHECK-LABEL: func.func @first_microbatch
// CHECK:         fsdp.grad_acquire @root
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    fsdp.all_gather_start @h.0
// CHECK-NEXT:    nn.matmul {{.*}}recompute>
// CHECK-NEXT:    nn.add {{.*}}recompute>
// CHECK-NEXT:    nn.compare
// CHECK:         %[[H0:.*]] = fsdp.all_gather_wait @h.0
// CHECK-NEXT:    %[[W:.*]] = fsdp.view %[[H0]][@h.0.w]
// CHECK-NEXT:    %[[B:.*]] = fsdp.view %[[H0]][@h.0.b]
// CHECK-NEXT:    %[[M:.*]] = nn.matmul %{{.*}}, %[[W]] {place = #nn.place<{{.*}}recompute>
// CHECK-NEXT:    nn.add %[[M]], %[[B]] {place = #nn.place<{{.*}}recompute>
