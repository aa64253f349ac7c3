// RUN: shardonnx-opt %s -raise-deviation | FileCheck %s

// The exporter's torch.std(x, 1): of Bessel's correction nothing but a factor
// is left.
// CHECK-LABEL: func.func @std
func.func @std(%x: tensor<6x9xf32>) -> tensor<6xf32> {
  %nine = nn.constant dense<9.0> : tensor<f32>
  %eight = nn.constant dense<8.0> : tensor<f32>
  %mean = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<6x9xf32>) -> tensor<6x1xf32>
  %centered = nn.sub %x, %mean : (tensor<6x9xf32>, tensor<6x1xf32>) -> tensor<6x9xf32>
  %squares = nn.mul %centered, %centered : (tensor<6x9xf32>, tensor<6x9xf32>) -> tensor<6x9xf32>
  %average = nn.reduce_mean %squares {axes = array<i64: 1>} : (tensor<6x9xf32>) -> tensor<6xf32>
  %sum = nn.mul %average, %nine : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
  // CHECK: %[[VARIANCE:.*]] = nn.div
  %variance = nn.div %sum, %eight : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
  // CHECK: %[[POSITIVE:.*]] = nn.compare gt %[[VARIANCE]]
  // CHECK: %[[INSIDE:.*]] = nn.select %[[POSITIVE]], %[[VARIANCE]]
  // CHECK: %[[ROOT:.*]] = nn.sqrt %[[INSIDE]]
  // CHECK: %[[RESULT:.*]] = nn.select %[[POSITIVE]], %[[ROOT]], %[[VARIANCE]]
  // CHECK: return %[[RESULT]]
  %0 = nn.sqrt %variance : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// A norm's root is never of 0; a root of squares is not a deviation.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.select
func.func @others(%x: tensor<6x9xf32>) -> (tensor<6x1xf32>, tensor<6x1xf32>) {
  %small = nn.constant dense<1.0e-5> : tensor<f32>
  %mean = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<6x9xf32>) -> tensor<6x1xf32>
  %centered = nn.sub %x, %mean : (tensor<6x9xf32>, tensor<6x1xf32>) -> tensor<6x9xf32>
  %squares = nn.mul %centered, %centered : (tensor<6x9xf32>, tensor<6x9xf32>) -> tensor<6x9xf32>
  %variance = nn.reduce_mean %squares {axes = array<i64: 1>, keepdims} : (tensor<6x9xf32>) -> tensor<6x1xf32>
  %moved = nn.add %variance, %small : (tensor<6x1xf32>, tensor<f32>) -> tensor<6x1xf32>
  %0 = nn.sqrt %moved : (tensor<6x1xf32>) -> tensor<6x1xf32>
  %own = nn.mul %x, %x : (tensor<6x9xf32>, tensor<6x9xf32>) -> tensor<6x9xf32>
  %norm = nn.reduce_sum %own {axes = array<i64: 1>, keepdims} : (tensor<6x9xf32>) -> tensor<6x1xf32>
  %1 = nn.sqrt %norm : (tensor<6x1xf32>) -> tensor<6x1xf32>
  return %0, %1 : tensor<6x1xf32>, tensor<6x1xf32>
}
