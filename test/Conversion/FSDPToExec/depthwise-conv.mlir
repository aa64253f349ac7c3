// A depthwise convolution and its gradients are calls on contiguous buffers, the
// same on CPUs and GPUs.
// RUN: shardonnx-opt %s -fsdp-to-exec -exec-plan-memory -verify-exec | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-to-exec=target=cuda -exec-plan-memory -verify-exec | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-to-exec -exec-plan-memory -exec-to-llvm | FileCheck %s --check-prefix=LLVM

// CHECK: exec.copy %{{.*}} into %[[X:.*]] : memref<2x3x9xf32, strided<[27, 1, 3]>>, memref<2x3x9xf32>
// CHECK: exec.depthwise_conv %[[X]], %{{.*}} into %[[Y:.*]] {dilations = array<i64: 1>, low = array<i64: 2>, strides = array<i64: 1>} : memref<2x3x9xf32>, memref<3x3xf32>, memref<2x3x9xf32>
// CHECK: exec.depthwise_conv_image_grad %[[Y]], %{{.*}} into
// CHECK: exec.depthwise_conv_kernel_grad %{{.*}}, %[[Y]] into
// LLVM: llvm.call @shx_depthwise_conv(
// LLVM: llvm.call @shx_depthwise_conv_image_grad(
// LLVM: llvm.call @shx_depthwise_conv_kernel_grad(
func.func @eval(%rows: tensor<2x9x3xf32>, %w: tensor<3x3xf32>) {
  %x = nn.transpose %rows {permutation = array<i64: 0, 2, 1>} : (tensor<2x9x3xf32>) -> tensor<2x3x9xf32>
  %y = nn.depthwise_conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 2>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<3x3xf32>) -> tensor<2x3x9xf32>
  %dx = nn.depthwise_conv_image_grad %y, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 2>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<3x3xf32>) -> tensor<2x3x9xf32>
  %dw = nn.depthwise_conv_kernel_grad %x, %y {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 2>, high = array<i64: 0>} : (tensor<2x3x9xf32>, tensor<2x3x9xf32>) -> tensor<3x3xf32>
  return
}
