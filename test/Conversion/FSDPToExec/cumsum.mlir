// RUN: shardonnx-opt %s -fsdp-to-exec -exec-reuse-in-place -exec-plan-memory -verify-exec | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-to-exec=target=cuda -exec-reuse-in-place -exec-plan-memory -verify-exec | FileCheck %s

// Read where a view lies; the second sum takes the place of the first, which
// nothing reads later; the third is written where the concat has it.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[X:.*]] = exec.buffer input 0 : memref<4x3xf32>
// CHECK: %[[T:.*]] = exec.view %[[X]][0] : memref<4x3xf32> to memref<3x4xf32, strided<[1, 3]>>
// CHECK: %[[S:.*]] = exec.buffer private
// CHECK: exec.cumsum %[[T]] into %[[S]] {axis = 1 : i64, exclusive} : memref<3x4xf32, strided<[1, 3]>>, memref<3x4xf32>
// CHECK: exec.cumsum %[[S]] into %[[S]] {axis = 0 : i64, reverse} : memref<3x4xf32>, memref<3x4xf32>
// CHECK: exec.cumsum %[[S]] into %{{.*}} {axis = 1 : i64} : memref<3x4xf32>, memref<3x4xf32, strided<[8, 1]>>
func.func @eval(%x: tensor<4x3xf32>) -> tensor<3x8xf32> {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %a = nn.cumsum %t {axis = 1 : i64, exclusive} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %b = nn.cumsum %a {axis = 0 : i64, reverse} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %c = nn.cumsum %b {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = nn.concat %c, %t {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}
