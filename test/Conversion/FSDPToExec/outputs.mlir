// RUN: shardonnx-opt %s -fsdp-to-exec | FileCheck %s
// What a function returns is written behind its inputs: by the op that computes
// it where that can, else by a copy.
// CHECK: exec.input 0 "x" "data" limit 0 : tensor<4x8xf32>
// CHECK: exec.input 1 "y" "output" limit 0 : tensor<4x4xf32>
// CHECK: exec.input 2 "t" "output" limit 0 : tensor<8x4xf32>
// CHECK-LABEL: func.func @eval()
// CHECK: %[[X:.*]] = exec.buffer input 0
// CHECK: %[[Y:.*]] = exec.buffer input 1 : memref<4x4xf32>
// CHECK: exec.gemm %[[X]], {{.*}} into %[[Y]]
// CHECK: %[[T:.*]] = exec.buffer input 2 : memref<8x4xf32>
// CHECK: exec.copy {{.*}} into %[[T]]
func.func @eval(%x: tensor<4x8xf32> {nn.name = "x"})
    -> (tensor<4x4xf32> {nn.name = "y"}, tensor<8x4xf32> {nn.name = "t"}) {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %y = nn.matmul %x, %t : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %y, %t : tensor<4x4xf32>, tensor<8x4xf32>
}
