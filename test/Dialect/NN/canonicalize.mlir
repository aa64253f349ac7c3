// RUN: shardonnx-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = nn.transpose %x {permutation = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.broadcast %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = nn.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 8>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = nn.cast %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<8xf32>
  %5 = nn.mul %one, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = nn.add %5, %zero : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0, %1, %2, %3, %4, %6 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A constant that makes the result larger is no identity.
// CHECK-LABEL: func.func @widening(
// CHECK: nn.mul
func.func @widening(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  %one = nn.constant dense<1.0> : tensor<4x1xf32>
  %0 = nn.mul %x, %one : (tensor<8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @pairs(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>, %[[L:.*]]: tensor<4xbf16>
func.func @pairs(%x: tensor<2x3x4xf32>, %l: tensor<4xbf16>) -> (tensor<2x12xf32>, tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<1x1x1xf32>, tensor<4xbf16>) {
  // CHECK-DAG: %[[R:.*]] = nn.reshape %[[X]] : tensor<2x3x4xf32> -> tensor<2x12xf32>
  %0 = nn.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = nn.reshape %0 : tensor<6x4xf32> -> tensor<2x12xf32>
  // CHECK-DAG: %[[T:.*]] = nn.transpose %[[X]] {permutation = array<i64: 2, 1, 0>}
  %2 = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %3 = nn.transpose %2 {permutation = array<i64: 2, 0, 1>} : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
  %4 = nn.transpose %2 {permutation = array<i64: 1, 0, 2>} : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[S:.*]] = nn.slice %[[X]] {offsets = array<i64: 1, 2, 3>, sizes = array<i64: 1, 1, 1>}
  %5 = nn.slice %x {offsets = array<i64: 1, 1, 1>, sizes = array<i64: 1, 2, 3>} : (tensor<2x3x4xf32>) -> tensor<1x2x3xf32>
  %6 = nn.slice %5 {offsets = array<i64: 0, 1, 2>, sizes = array<i64: 1, 1, 1>} : (tensor<1x2x3xf32>) -> tensor<1x1x1xf32>
  // Widening loses nothing.
  %7 = nn.cast %l : tensor<4xbf16> -> tensor<4xf32>
  %8 = nn.cast %7 : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: return %[[R]], %[[T]], %[[X]], %[[S]], %[[L]]
  return %1, %3, %4, %6, %8 : tensor<2x12xf32>, tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<1x1x1xf32>, tensor<4xbf16>
}

// Rounding first does lose something.
// CHECK-LABEL: func.func @rounding(
// CHECK-COUNT-2: nn.cast
func.func @rounding(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %1 = nn.cast %0 : tensor<4xbf16> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @constants(
func.func @constants() -> (tensor<2x3xf32>, tensor<3xi64>, tensor<3xf32>) {
  // CHECK-DAG: %[[A:.*]] = nn.constant dense<3.500000e+00> : tensor<2x3xf32>
  // CHECK-DAG: %[[B:.*]] = nn.constant dense<7> : tensor<3xi64>
  // CHECK-DAG: %[[C:.*]] = nn.constant dense<-1.000000e+00> : tensor<3xf32>
  // CHECK: return %[[A]], %[[B]], %[[C]]
  %a = nn.constant dense<7.0> : tensor<3xf32>
  %b = nn.constant dense<0.5> : tensor<2x1xf32>
  %0 = nn.mul %a, %b : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %i = nn.constant dense<10> : tensor<3xi64>
  %j = nn.constant dense<3> : tensor<i64>
  %1 = nn.sub %i, %j : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %n = nn.constant dense<-1> : tensor<i64>
  %m = nn.broadcast %n : tensor<i64> -> tensor<3xi64>
  %2 = nn.cast %m : tensor<3xi64> -> tensor<3xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<3xi64>, tensor<3xf32>
}

// CHECK-LABEL: func.func @powers(
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>
// CHECK: %[[SQ:.*]] = nn.mul %[[X]], %[[X]]
// CHECK: nn.sqrt %[[X]]
// CHECK: nn.pow
func.func @powers(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %two = nn.constant dense<2.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %odd = nn.constant dense<2.5> : tensor<f32>
  %0 = nn.pow %x, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = nn.pow %x, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = nn.pow %x, %odd : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// Transposed operands become flags, rows flatten.
// CHECK-LABEL: func.func @matmuls(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>, %[[W:.*]]: tensor<5x4xf32>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[X]] {place = #nn.place<@u>} : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[ROWS]], %[[W]] {place = #nn.place<@u>, transpose_rhs} : (tensor<6x4xf32>, tensor<5x4xf32>) -> tensor<6x5xf32>
// CHECK: nn.reshape %[[P]] {place = #nn.place<@u>} : tensor<6x5xf32> -> tensor<2x3x5xf32>
func.func @matmuls(%x: tensor<2x3x4xf32>, %w: tensor<5x4xf32>) -> tensor<2x3x5xf32> {
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %0 = nn.matmul %x, %t {place = #nn.place<@u>} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
