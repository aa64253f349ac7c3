// Groups do not merge where a path between them goes by way of a later op and,
// through a group that begins earlier, back.
// RUN: shardonnx-opt %s -nn-fuse | FileCheck %s

// %dy waits for nothing, %d reads it and shares a kernel with %a; so %z, which
// reads %a, cannot share one with %dy, though both read %w.
// CHECK-LABEL: func.func @f
// CHECK: %[[DY:.*]] = nn.fused rows [2, 3, 4] (%{{.*}} = %arg1 : tensor<2x3x4xf32>, %{{.*}} = %arg2 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[DS:.*]] = nn.transpose %[[DY]]
// CHECK: %[[AD:.*]]:2 = nn.fused rows [2, 4, 3] ({{.*}}%[[DS]]
// CHECK: %[[Y:.*]] = nn.transpose %[[AD]]#
// CHECK: nn.fused rows [2, 3, 4] ({{.*}}%[[Y]]
func.func @f(%x: tensor<2x4x3xf32>, %w: tensor<2x3x4xf32>, %v: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x4x3xf32>) {
  %a = nn.exp %x : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %y = nn.transpose %a {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %z = nn.mul %y, %w : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %dy = nn.mul %w, %v : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %ds = nn.transpose %dy {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %d = nn.mul %ds, %a : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  return %z, %d : tensor<2x3x4xf32>, tensor<2x4x3xf32>
}
