// RUN: shardonnx-opt %s -raise-layout | FileCheck %s

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>, %y: tensor<4x2xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK-DAG: nn.matmul %arg0, %arg1 {transpose_rhs}
  %0 = nn.matmul %x, %t : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %u = nn.transpose %y {permutation = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  // CHECK-DAG: nn.matmul %arg2, %arg1 {transpose_lhs, transpose_rhs}
  %1 = nn.matmul %u, %w {transpose_rhs} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<2x8xf32>
}

// The keys of attention as opset 18 writes them: batch axes merged, matrix
// transposed, batch axes split.
// CHECK-LABEL: func.func @keys
func.func @keys(%k: tensor<2x3x5x4xf32>) -> tensor<2x3x4x5xf32> {
  // CHECK: nn.transpose %arg0 {permutation = array<i64: 0, 1, 3, 2>}
  %0 = nn.reshape %k : tensor<2x3x5x4xf32> -> tensor<6x5x4xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 1>} : (tensor<6x5x4xf32>) -> tensor<6x4x5xf32>
  %2 = nn.reshape %1 : tensor<6x4x5xf32> -> tensor<2x3x4x5xf32>
  return %2 : tensor<2x3x4x5xf32>
}

// CHECK-LABEL: func.func @rsqrt
func.func @rsqrt(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: nn.rsqrt %arg0
  %0 = nn.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.reciprocal %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @one_over_root
func.func @one_over_root(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: nn.rsqrt %arg0
  // CHECK-DAG: nn.div %{{.*}}, %arg0
  %one = nn.constant dense<1.0> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.div %one, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.div %two, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// Other permutations stay.
// CHECK-LABEL: func.func @batch
func.func @batch(%x: tensor<2x3x4xf32>, %w: tensor<3x2x5xf32>) -> tensor<2x3x5xf32> {
  // CHECK: nn.transpose
  // CHECK-NEXT: nn.matmul %arg0, %{{.*}} {transpose_lhs}
  %t = nn.transpose %w {permutation = array<i64: 1, 0, 2>} : (tensor<3x2x5xf32>) -> tensor<2x3x5xf32>
  %0 = nn.matmul %x, %t {transpose_lhs} : (tensor<2x3x4xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  %1 = nn.matmul %x, %0 : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// Batches and heads merged for a product of rank 3, scores with a factor and a
// bias of their own (torch.baddbmm): merged only after all of it.
// CHECK-LABEL: func.func @merged_scores
func.func @merged_scores(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x5x4xf32>, %alibi: tensor<6x1x5xf32>) -> tensor<2x3x5x5xf32> {
  // CHECK: %[[P:.*]] = nn.matmul %arg0, %arg1 {transpose_rhs} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x5xf32>
  // CHECK: %[[S:.*]] = nn.mul %[[P]], %{{.*}} : (tensor<2x3x5x5xf32>, tensor<f32>)
  // CHECK: %[[A:.*]] = nn.reshape %arg2 : tensor<6x1x5xf32> -> tensor<2x3x1x5xf32>
  // CHECK: %[[R:.*]] = nn.add %[[S]], %[[A]] : (tensor<2x3x5x5xf32>, tensor<2x3x1x5xf32>)
  // CHECK: return %[[R]]
  %half = nn.constant dense<0.5> : tensor<f32>
  %0 = nn.reshape %q : tensor<2x3x5x4xf32> -> tensor<6x5x4xf32>
  %1 = nn.reshape %k : tensor<2x3x5x4xf32> -> tensor<6x5x4xf32>
  %2 = nn.matmul %0, %1 {transpose_rhs} : (tensor<6x5x4xf32>, tensor<6x5x4xf32>) -> tensor<6x5x5xf32>
  %3 = nn.mul %2, %half : (tensor<6x5x5xf32>, tensor<f32>) -> tensor<6x5x5xf32>
  %4 = nn.add %3, %alibi : (tensor<6x5x5xf32>, tensor<6x1x5xf32>) -> tensor<6x5x5xf32>
  %5 = nn.reshape %4 : tensor<6x5x5xf32> -> tensor<2x3x5x5xf32>
  return %5 : tensor<2x3x5x5xf32>
}

// Merged otherwise: stays.
// CHECK-LABEL: func.func @merged_otherwise
func.func @merged_otherwise(%q: tensor<2x3x5x4xf32>, %k: tensor<3x2x5x4xf32>) -> tensor<6x5x5xf32> {
  // CHECK: nn.matmul {{.*}} -> tensor<6x5x5xf32>
  %0 = nn.reshape %q : tensor<2x3x5x4xf32> -> tensor<6x5x4xf32>
  %1 = nn.reshape %k : tensor<3x2x5x4xf32> -> tensor<6x5x4xf32>
  %2 = nn.matmul %0, %1 {transpose_rhs} : (tensor<6x5x4xf32>, tensor<6x5x4xf32>) -> tensor<6x5x5xf32>
  return %2 : tensor<6x5x5xf32>
}
