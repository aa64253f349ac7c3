// RUN: shardonnx-opt %s -nn-assign-units | FileCheck %s

// No module path anywhere: three times matmul, relu, residual sum. The sum of
// the two embeddings looks like a residual sum, and the head like the next
// block's matmul but for its shape: the cut is where one value crosses.
nn.parameter @p0 : tensor<32x8xf32> trainable {onnx_name = "p0"}
nn.parameter @p1 : tensor<8x8xf32> trainable {onnx_name = "p1"}
nn.parameter @p2 : tensor<8x8xf32> trainable {onnx_name = "p2"}
nn.parameter @p3 : tensor<8x8xf32> trainable {onnx_name = "p3"}

// CHECK: @p0 {{.*}}place = #nn.place<@root>
// CHECK: @p1 {{.*}}place = #nn.place<@block.0>
// CHECK: @p2 {{.*}}place = #nn.place<@block.1>
// CHECK: @p3 {{.*}}place = #nn.place<@block.2>
func.func @main(%ids: tensor<4xi64>, %pos: tensor<4xi64>) -> tensor<4x32xf32> {
  %t = nn.get @p0 : tensor<32x8xf32>
  // CHECK: nn.embedding {{.*}}place = #nn.place<@root>
  %e = nn.embedding %t, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %p = nn.embedding %t, %pos : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}place = #nn.place<@root>
  %x0 = nn.add %e, %p : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w0 = nn.get @p1 : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}}place = #nn.place<@block.0>
  %m0 = nn.matmul %x0, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // A table that the first block makes for all of them.
  // CHECK: nn.iota {{.*}}place = #nn.place<@root>
  %table = nn.iota {axis = 0 : i64} : () -> tensor<4x1xf32>
  %r0 = nn.mul %m0, %table : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}place = #nn.place<@block.0>
  %x1 = nn.add %x0, %r0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w1 = nn.get @p2 : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}}place = #nn.place<@block.1>
  %m1 = nn.matmul %x1, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r1 = nn.mul %m1, %table : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}place = #nn.place<@block.1>
  %x2 = nn.add %x1, %r1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w2 = nn.get @p3 : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}}place = #nn.place<@block.2>
  %m2 = nn.matmul %x2, %w2 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r2 = nn.mul %m2, %table : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}place = #nn.place<@block.2>
  %x3 = nn.add %x2, %r2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.matmul {{.*}}place = #nn.place<@root>
  %logits = nn.matmul %x3, %t {transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  return %logits : tensor<4x32xf32>
}
