// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On CPUs a product is added where the matrix lies that it is summed with.

// RUN: shardonnx-opt %s -fsdp-to-exec -split-input-file | FileCheck %s

// To the parts of a joined product, as adapters of gate and up are.
// CHECK-LABEL: func.func @parts
// CHECK-NOT: exec.copy
// CHECK: %[[BOTH:.*]] = exec.alloc : memref<8x16xf32>
// CHECK: exec.gemm %{{.*}} into %[[BOTH]] workspace
// CHECK: %[[LEFT:.*]] = exec.view %[[BOTH]][0]
// CHECK: exec.gemm %{{.*}} into %[[LEFT]] accumulate
// CHECK: %[[RIGHT:.*]] = exec.view %[[BOTH]][8]
// CHECK: exec.gemm %{{.*}} into %[[RIGHT]] accumulate
// CHECK-NOT: exec.copy
// CHECK: exec.launch @rows_mul(%[[LEFT]], %[[RIGHT]])
func.func @parts(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %h: tensor<8x4xf32>, %b: tensor<4x8xf32>) {
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %left = nn.slice %y {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 8>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %right = nn.slice %y {offsets = array<i64: 0, 8>, sizes = array<i64: 8, 8>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %0 = nn.matmul_epilogue bias %h, %b, %left : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.matmul_epilogue bias %h, %b, %right : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = nn.fused rows [8, 8] (%p = %0 : tensor<8x8xf32>, %q = %1 : tensor<8x8xf32>) -> tensor<8x8xf32> {
    %m = nn.mul %p, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nn.yield %m : tensor<8x8xf32>
  }
  return
}

// -----

// What is read without the product, too, stays as it is: the sum begins as a
// copy.
// CHECK-LABEL: func.func @read_twice
// CHECK: exec.gemm %{{.*}} into %[[Y:[0-9]+]] workspace
// CHECK: exec.copy %[[Y]] into %[[SUM:[0-9]+]] :
// CHECK: exec.gemm %{{.*}} into %[[SUM]] accumulate
// CHECK: exec.launch @rows_mul(%[[SUM]], %[[Y]])
func.func @read_twice(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>, %h: tensor<8x4xf32>, %b: tensor<4x8xf32>) {
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %0 = nn.matmul_epilogue bias %h, %b, %y : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.fused rows [8, 8] (%p = %0 : tensor<8x8xf32>, %q = %y : tensor<8x8xf32>) -> tensor<8x8xf32> {
    %m = nn.mul %p, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nn.yield %m : tensor<8x8xf32>
  }
  return
}

// -----

// A sum that is joined with others is made where it belongs from the begin.
// CHECK-LABEL: func.func @joined
// CHECK-NOT: exec.copy
// CHECK: %[[ALL:.*]] = exec.alloc : memref<9x8xf32>
// CHECK: %[[ROWS:.*]] = exec.view %[[ALL]][0] {{.*}} to memref<8x8xf32>
// CHECK: exec.gemm %{{.*}} into %[[ROWS]] workspace
// CHECK: exec.gemm %{{.*}} into %[[ROWS]] accumulate
func.func @joined(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>, %h: tensor<8x4xf32>, %b: tensor<4x8xf32>, %one: tensor<1x8xf32>) {
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %0 = nn.matmul_epilogue bias %h, %b, %y : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.concat %0, %one {axis = 0 : i64} : (tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<9x8xf32>
  %2 = nn.fused rows [9, 8] (%p = %1 : tensor<9x8xf32>) -> tensor<9x8xf32> {
    %m = nn.neg %p : (tensor<9x8xf32>) -> tensor<9x8xf32>
    nn.yield %m : tensor<9x8xf32>
  }
  return
}
