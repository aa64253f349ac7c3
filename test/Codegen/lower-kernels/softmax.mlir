// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shape of the code: vectors of the processor's width, one row buffer, no
// call and no other memory.

// RUN: shardonnx-opt %s --exec-lower-kernels=arch=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: shardonnx-opt %s --exec-lower-kernels=arch=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4

// CHECK-LABEL: llvm.func @softmax(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64)
// CHECK: llvm.alloca {{.*}} x f32
// CHECK-NOT: llvm.alloca
// V3: llvm.load {{.*}} -> vector<8xf32>
// V4: llvm.load {{.*}} -> vector<16xf32>
// CHECK-NOT: llvm.call
// CHECK: llvm.intr.vector.reduce.fmax
// CHECK-NOT: llvm.call
// CHECK: llvm.intr.vector.reduce.fadd
// CHECK-NOT: llvm.call
// V3: llvm.store {{.*}} : vector<8xf32>
// V4: llvm.store {{.*}} : vector<16xf32>
// CHECK: llvm.return
exec.kernel @softmax rows [32, 64] [memref<32x64xf32>, memref<32x64xf32>] {
^bb0(%x: tensor<32x64xf32>):
  %m = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<32x64xf32>) -> tensor<32x1xf32>
  %s = nn.sub %x, %m : (tensor<32x64xf32>, tensor<32x1xf32>) -> tensor<32x64xf32>
  %e = nn.exp %s : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %t = nn.reduce_sum %e {axes = array<i64: 1>, keepdims} : (tensor<32x64xf32>) -> tensor<32x1xf32>
  %r = nn.reciprocal %t : (tensor<32x1xf32>) -> tensor<32x1xf32>
  %p = nn.mul %e, %r : (tensor<32x64xf32>, tensor<32x1xf32>) -> tensor<32x64xf32>
  nn.yield %p : tensor<32x64xf32>
}

// Elementwise and contiguous: no buffer, no row, one run of elements.
// CHECK-LABEL: llvm.func @copy_to_bf16
// CHECK-NOT: llvm.alloca
// CHECK: llvm.load {{.*}} -> vector<{{8|16}}xf32>
// CHECK: llvm.store {{.*}} : vector<{{8|16}}xi16>
exec.kernel @copy_to_bf16 rows [32, 64] [memref<32x64xf32>, memref<32x64xbf16>] {
^bb0(%x: tensor<32x64xf32>):
  %0 = nn.cast %x : tensor<32x64xf32> -> tensor<32x64xbf16>
  nn.yield %0 : tensor<32x64xbf16>
}
