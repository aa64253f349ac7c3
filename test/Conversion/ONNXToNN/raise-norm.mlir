// RUN: shardonnx-opt %s -raise-norm | FileCheck %s

// CHECK-LABEL: func.func @rms
func.func @rms(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[R:[^,]*]], %{{.*}} = nn.rms_norm %arg0, %arg1 {epsilon = 9.99999997E-7 : f32}
  // CHECK-NEXT: return %[[R]]
  %two = nn.constant dense<2.0> : tensor<f32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %0 = nn.pow %x, %two : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.rsqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = nn.mul %x, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %5 = nn.mul %w, %4 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %5 : tensor<2x8xf32>
}

// In half precision the exporter computes in f32 between casts, as the op does.
// CHECK-LABEL: func.func @half
func.func @half(%x: tensor<2x8xbf16>, %w: tensor<8xbf16>) -> tensor<2x8xbf16> {
  // CHECK-NEXT: nn.rms_norm %arg0, %arg1 {{.*}} : (tensor<2x8xbf16>, tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<2x1xf32>)
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %f = nn.cast %x : tensor<2x8xbf16> -> tensor<2x8xf32>
  %0 = nn.mul %f, %f : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.sqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = nn.div %f, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %5 = nn.cast %4 : tensor<2x8xf32> -> tensor<2x8xbf16>
  %6 = nn.mul %5, %w : (tensor<2x8xbf16>, tensor<8xbf16>) -> tensor<2x8xbf16>
  return %6 : tensor<2x8xbf16>
}

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<2x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: nn.layer_norm %arg0, %arg1, %arg2 {epsilon = 9.99999974E-6 : f32}
  %eps = nn.constant dense<1.0e-5> : tensor<f32>
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %d = nn.sub %x, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %0 = nn.mul %d, %d : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.rsqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = nn.mul %d, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %5 = nn.mul %4, %w : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %6 = nn.add %5, %b : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}

// The square of something else is no norm, nor is a mean over another axis.
// CHECK-LABEL: func.func @neither
func.func @neither(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>, %w: tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  // CHECK-NOT: nn.rms_norm
  %eps = nn.constant dense<1.0e-6> : tensor<f32>
  %0 = nn.mul %y, %y : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.rsqrt %2 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = nn.mul %x, %3 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %5 = nn.mul %w, %4 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = nn.reduce_mean %0 {axes = array<i64: 0>, keepdims} : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %7 = nn.add %6, %eps : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %8 = nn.rsqrt %7 : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %9 = nn.mul %y, %8 : (tensor<2x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %10 = nn.mul %w, %9 : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %5, %10 : tensor<2x8xf32>, tensor<2x8xf32>
}

// The exporter's own rewriting leaves the centring; a scale of each head comes
// after a norm of ones.
// CHECK-LABEL: func.func @centered
func.func @centered(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[R:[a-z]+]], %{{.*}} = nn.layer_norm %arg0, %arg1 {epsilon = 9.99999974E-6 : f32}
  // CHECK-NEXT: return %[[R]]
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %d = nn.sub %x, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %r, %s = nn.rms_norm %d, %w {epsilon = 1.0e-5 : f32} : (tensor<2x8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>)
  return %r : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @heads
func.func @heads(%x: tensor<2x3x8xf32>, %w: tensor<3x8xf32>) -> tensor<2x3x8xf32> {
  // CHECK: %[[ONES:.*]] = nn.constant dense<1.000000e+00> : tensor<8xf32>
  // CHECK: %[[R:[a-z]+]], %{{.*}} = nn.rms_norm %arg0, %[[ONES]] {epsilon = 9.99999974E-6 : f32}
  // CHECK: nn.mul %arg1, %[[R]] : (tensor<3x8xf32>, tensor<2x3x8xf32>)
  %eps = nn.constant dense<1.0e-5> : tensor<f32>
  %0 = nn.mul %x, %x : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims} : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %2 = nn.add %1, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %3 = nn.rsqrt %2 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %4 = nn.mul %x, %3 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %5 = nn.mul %w, %4 : (tensor<3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// The root as a power, and an epsilon that the exporter took for nothing.
// CHECK-LABEL: func.func @power
func.func @power(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[R:[^,]*]], %{{.*}} = nn.rms_norm %arg0, %arg1 {epsilon = 0.000000e+00 : f32}
  // CHECK-NEXT: return %[[R]]
  %minus = nn.constant dense<-0.5> : tensor<f32>
  %0 = nn.mul %x, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %2 = nn.pow %1, %minus : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %3 = nn.mul %x, %2 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %4 = nn.mul %3, %w : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}
