// Ops that choose elements, as text and when they do not fit.
// RUN: shardonnx-opt %s -verify-diagnostics -split-input-file | shardonnx-opt -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @choose
func.func @choose(%x: tensor<2x3x4xf32>, %i: tensor<5x1xi64>, %u: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: nn.gather %{{.*}}, %{{.*}} {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: -1, 0, -1>, indexed_axes = array<i64: 1>} : (tensor<2x3x4xf32>, tensor<5x1xi64>) -> tensor<2x5x4xf32>
  %0 = nn.gather %x, %i {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: -1, 0, -1>, indexed_axes = array<i64: 1>} : (tensor<2x3x4xf32>, tensor<5x1xi64>) -> tensor<2x5x4xf32>
  // CHECK: nn.scatter add %{{.*}}, %{{.*}} {data_axes
  %1 = nn.scatter add %i, %0 {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: -1, 0, -1>, indexed_axes = array<i64: 1>} : (tensor<5x1xi64>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.scatter max %{{.*}}, %{{.*}}, %{{.*}} {data_axes
  %2 = nn.scatter max %i, %u, %1 {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: -1, 0, -1>, indexed_axes = array<i64: 1>} : (tensor<5x1xi64>, tensor<2x5x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.top_k %{{.*}} {axis = 2 : i64, k = 2 : i64, smallest} : (tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi64>)
  %3:2 = nn.top_k %2 {axis = 2 : i64, k = 2 : i64, smallest} : (tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi64>)
  // CHECK: nn.windows %{{.*}} {axes = array<i64: 2>, dilations = array<i64: 1>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x3x3x2xf32>
  %4 = nn.windows %2 {axes = array<i64: 2>, sizes = array<i64: 2>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x3x3x2xf32>
  // CHECK: nn.overlap_add %{{.*}} : tensor<2x3x3x2xf32> -> tensor<2x3x4xf32>
  %5 = nn.overlap_add %4 {axes = array<i64: 2>, strides = array<i64: 1>, dilations = array<i64: 1>} : tensor<2x3x3x2xf32> -> tensor<2x3x4xf32>
  return %5 : tensor<2x3x4xf32>
}

// -----

func.func @axis_twice(%x: tensor<2x3xf32>, %i: tensor<5x1xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot gather from 'tensor<2x3xf32>' at 'tensor<5x1xi64>' along these axes}}
  %0 = nn.gather %x, %i {data_axes = array<i64: -1, 0>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : (tensor<2x3xf32>, tensor<5x1xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @longer_than_data(%x: tensor<2x3xf32>, %i: tensor<5x4x1xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot gather}}
  %0 = nn.gather %x, %i {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, 1>, indexed_axes = array<i64: 0>} : (tensor<2x3xf32>, tensor<5x4x1xi64>) -> tensor<5x4xf32>
  return
}

// -----

func.func @updates(%i: tensor<5x1xi64>, %u: tensor<4x3xf32>) {
  // expected-error @below {{cannot scatter 'tensor<4x3xf32>' at 'tensor<5x1xi64>' into 'tensor<2x3xf32>' along these axes}}
  %0 = nn.scatter add %i, %u {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : (tensor<5x1xi64>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @too_many(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take 4 elements along axis 1 of 'tensor<2x3xf32>'}}
  %0:2 = nn.top_k %x {axis = 1 : i64, k = 4 : i64} : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  return
}

// -----

func.func @long_window(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{'tensor<2x3xf32>' has no windows like these}}
  %0 = nn.windows %x {axes = array<i64: 1>, sizes = array<i64: 2>, strides = array<i64: 1>, dilations = array<i64: 3>} : (tensor<2x3xf32>) -> tensor<2x1x2xf32>
  return
}

// -----

func.func @not_windows(%x: tensor<2x3x2xf32>) {
  // expected-error @below {{'tensor<2x3x2xf32>' are no windows of 'tensor<2x6xf32>'}}
  %0 = nn.overlap_add %x {axes = array<i64: 1>, strides = array<i64: 1>, dilations = array<i64: 1>} : tensor<2x3x2xf32> -> tensor<2x6xf32>
  return
}

// -----

func.func @other_depth(%x: tensor<5x3xf32>, %w: tensor<4x2x6xf32>, %i: tensor<5xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rows 'tensor<5x3xf32>' do not fit matrices 'tensor<4x2x6xf32>' and indices 'tensor<5xi64>'}}
  %0 = nn.grouped_matmul %x, %w, %i : (tensor<5x3xf32>, tensor<4x2x6xf32>, tensor<5xi64>) -> tensor<5x6xf32>
  return
}
