// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block -cse | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute | FileCheck %s --check-prefix=NONE

// NONE-NOT: fsdp.recompute

// CHECK-LABEL: func.func @microbatch
// CHECK:         %[[X0:.*]] = nn.embedding
// CHECK:         %[[X1:.*]] = nn.add %[[X0]]
// CHECK:         %[[X2:.*]] = nn.add %[[X1]]
// Only what backward reads is computed again: the relu's argument, not the relu
// nor the residual sum; from the block's input; before the block's backward.
// CHECK:         %[[DX2:.*]] = nn.matmul {{.*}}transpose_rhs
// CHECK:         %[[M1:.*]] = nn.matmul %[[X1]], %{{.*}} {fsdp.recompute, nn.unit = @h.1}
// CHECK-NEXT:    %[[A1:.*]] = nn.add %[[M1]], %{{.*}} {fsdp.recompute, nn.unit = @h.1}
// CHECK-NEXT:    nn.compare gt %[[A1]]
// CHECK:         %[[M0:.*]] = nn.matmul %[[X0]], %{{.*}} {fsdp.recompute, nn.unit = @h.0}
// CHECK-NEXT:    %[[A0:.*]] = nn.add %[[M0]], %{{.*}} {fsdp.recompute, nn.unit = @h.0}
// CHECK-NEXT:    nn.compare gt %[[A0]]
// CHECK-NOT:     fsdp.recompute
