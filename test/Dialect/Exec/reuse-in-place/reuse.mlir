// RUN: shardonnx-opt %s -exec-reuse-in-place | FileCheck %s

exec.kernel @twice rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%x: tensor<4x8xf32>):
  %y = nn.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %y : tensor<4x8xf32>
}
exec.kernel @add_row rows [4, 8] [memref<8xf32>, memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%r: tensor<8xf32>, %x: tensor<4x8xf32>):
  %y = nn.add %r, %x : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %y : tensor<4x8xf32>
}
exec.kernel @sum_and_rest rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%x: tensor<4x8xf32>):
  %s = nn.reduce_sum %x {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %y = nn.sub %x, %s : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %z = nn.add %x, %s : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  nn.yield %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: @chain
// CHECK: %[[A:.*]] = exec.alloc
// CHECK-NOT: exec.alloc
// CHECK: exec.launch @twice(%[[A]]) into (%[[A]])
// CHECK: exec.launch @twice(%[[A]]) into (%[[A]])
func.func @chain() {
  %a = exec.alloc : memref<4x8xf32>
  %b = exec.alloc : memref<4x8xf32>
  %c = exec.alloc : memref<4x8xf32>
  exec.zero %a : memref<4x8xf32>
  exec.launch @twice(%a) into (%b) : (memref<4x8xf32>) -> (memref<4x8xf32>)
  exec.launch @twice(%b) into (%c) : (memref<4x8xf32>) -> (memref<4x8xf32>)
  exec.copy %c into %c : memref<4x8xf32>, memref<4x8xf32>
  return
}

// A view of the whole is as good as the root, also for what views the result.
// CHECK-LABEL: @through_views
// CHECK: %[[A:.*]] = exec.alloc : memref<32xf32>
// CHECK: %[[V:.*]] = exec.view %[[A]][0]
// CHECK: %[[W:.*]] = exec.view %[[V]][0] : memref<4x8xf32> to memref<2x16xf32>
// CHECK: exec.launch @twice(%[[V]]) into (%[[V]])
// CHECK: exec.copy %[[W]]
func.func @through_views() {
  %a = exec.alloc : memref<32xf32>
  %b = exec.alloc : memref<4x8xf32>
  %w = exec.view %b[0] : memref<4x8xf32> to memref<2x16xf32>
  %c = exec.alloc : memref<2x16xf32>
  exec.zero %a : memref<32xf32>
  %v = exec.view %a[0] : memref<32xf32> to memref<4x8xf32>
  exec.launch @twice(%v) into (%b) : (memref<4x8xf32>) -> (memref<4x8xf32>)
  exec.copy %w into %c : memref<2x16xf32>, memref<2x16xf32>
  return
}

// Not: an operand that is read later, one that is broadcast, parameters, or
// several results with a reduction between.
// CHECK-LABEL: @kept
// CHECK: %[[A:.*]] = exec.alloc : memref<4x8xf32>
// CHECK: %[[B:.*]] = exec.alloc : memref<4x8xf32>
// CHECK: exec.launch @twice(%[[A]]) into (%[[B]])
// CHECK: exec.launch @add_row(%{{.*}}, %[[A]]) into (%[[A]])
// CHECK: exec.launch @sum_and_rest(%[[A]]) into (%[[C:.*]], %[[D:.*]]) :
func.func @kept() {
  %a = exec.alloc : memref<4x8xf32>
  %b = exec.alloc : memref<4x8xf32>
  %r = exec.alloc : memref<8xf32>
  exec.zero %a : memref<4x8xf32>
  exec.zero %r : memref<8xf32>
  exec.launch @twice(%a) into (%b) : (memref<4x8xf32>) -> (memref<4x8xf32>)
  exec.copy %b into %b : memref<4x8xf32>, memref<4x8xf32>
  %e = exec.alloc : memref<4x8xf32>
  exec.launch @add_row(%r, %a) into (%e) : (memref<8xf32>, memref<4x8xf32>) -> (memref<4x8xf32>)
  %c = exec.alloc : memref<4x8xf32>
  %d = exec.alloc : memref<4x8xf32>
  exec.launch @sum_and_rest(%e) into (%c, %d) : (memref<4x8xf32>) -> (memref<4x8xf32>, memref<4x8xf32>)
  exec.copy %c into %d : memref<4x8xf32>, memref<4x8xf32>
  return
}
