// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @gradients
// CHECK: nn.depthwise_conv_image_grad
// CHECK: nn.depthwise_conv_kernel_grad
func.func @gradients(%x: tensor<2x3x9x8xf32>, %w: tensor<3x3x2xf32>, %dy: tensor<2x3x5x4xf32>) {
  %0 = nn.depthwise_conv_image_grad %dy, %w {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<2x3x5x4xf32>, tensor<3x3x2xf32>) -> tensor<2x3x9x8xf32>
  %1 = nn.depthwise_conv_kernel_grad %x, %dy {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<2x3x9x8xf32>, tensor<2x3x5x4xf32>) -> tensor<3x3x2xf32>
  return
}

// -----

func.func @channels(%x: tensor<2x3x9xf32>, %w: tensor<4x3xf32>) {
  // expected-error @below {{image 'tensor<2x3x9xf32>' does not fit kernel 'tensor<4x3xf32>' and these windows}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.depthwise_conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<4x3xf32>) -> tensor<2x3x7xf32>
  return
}

// -----

// No place is left.
func.func @room(%x: tensor<2x3x9xf32>, %w: tensor<3x3xf32>) {
  // expected-error @below {{does not fit kernel}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.depthwise_conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 5>, low = array<i64: 0>, high = array<i64: 1>} : (tensor<2x3x9xf32>, tensor<3x3xf32>) -> tensor<2x3x1xf32>
  return
}

// -----

// Nothing overflows.
func.func @huge(%x: tensor<2x3x9xf32>, %w: tensor<3x3xf32>) {
  // expected-error @below {{does not fit kernel}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.depthwise_conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 4611686018427387904>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<3x3xf32>) -> tensor<2x3x1xf32>
  return
}

// -----

func.func @places(%x: tensor<2x3x9xf32>, %dy: tensor<2x3x8xf32>) {
  // expected-error @below {{has no convolution of 'tensor<2x3x9xf32>' with 'tensor<3x3xf32>' and result 'tensor<2x3x8xf32>'}}
  %0 = nn.depthwise_conv_kernel_grad %x, %dy {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<2x3x8xf32>) -> tensor<3x3xf32>
  return
}
