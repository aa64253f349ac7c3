// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What products of 8 bits read transposed is written so by the kernel that
// makes it, whatever shape that gives it; parts lie below each other.

// RUN: shardonnx-opt %s -fsdp-to-exec=target=cuda | FileCheck %s

// CHECK: exec.kernel @rows_f8_cast rows [2, 16, 32] [memref<2x16x32xbf16>, memref<1x1xf32>, memref<2x16x32xf8E4M3FN, strided<[16, 1, 32]>>]
// CHECK-LABEL: func.func @eval
// CHECK-NOT: exec.copy
// CHECK: %[[BOTH:.*]] = exec.alloc : memref<64x32xf8E4M3FN>
// CHECK: exec.view %[[BOTH]][0] {{.*}} to memref<2x16x32xf8E4M3FN, strided<[16, 1, 32]>>
// CHECK: exec.view %[[BOTH]][1024] {{.*}} to memref<2x16x32xf8E4M3FN, strided<[16, 1, 32]>>
// CHECK: exec.f8_gemm {{.*}}%[[BOTH]]
// CHECK-NOT: exec.copy
func.func @eval(%x: tensor<2x16x32xbf16>, %y: tensor<2x16x32xbf16>, %s: tensor<1x1xf32>, %g: tensor<16x32xf8E5M2>) {
  %0 = nn.fused rows [2, 16, 32] (%p = %x : tensor<2x16x32xbf16>, %q = %s : tensor<1x1xf32>) -> tensor<2x16x32xf8E4M3FN> attributes {place = #nn.place<@h>} {
    %c = nn.f8_cast e4m3 %p, %q : (tensor<2x16x32xbf16>, tensor<1x1xf32>) -> tensor<2x16x32xf8E4M3FN>
    nn.yield %c : tensor<2x16x32xf8E4M3FN>
  }
  %1 = nn.fused rows [2, 16, 32] (%p = %y : tensor<2x16x32xbf16>, %q = %s : tensor<1x1xf32>) -> tensor<2x16x32xf8E4M3FN> attributes {place = #nn.place<@h>} {
    %c = nn.f8_cast e4m3 %p, %q : (tensor<2x16x32xbf16>, tensor<1x1xf32>) -> tensor<2x16x32xf8E4M3FN>
    nn.yield %c : tensor<2x16x32xf8E4M3FN>
  }
  %2 = nn.reshape %0 : tensor<2x16x32xf8E4M3FN> -> tensor<32x32xf8E4M3FN>
  %3 = nn.reshape %1 : tensor<2x16x32xf8E4M3FN> -> tensor<32x32xf8E4M3FN>
  %4 = nn.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<32x32xf8E4M3FN>) -> tensor<32x32xf8E4M3FN>
  %5 = nn.transpose %3 {permutation = array<i64: 1, 0>} : (tensor<32x32xf8E4M3FN>) -> tensor<32x32xf8E4M3FN>
  %6 = nn.concat %4, %5 {axis = 0 : i64} : (tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
  %7 = nn.f8_product %g, %6, %s, %s : (tensor<16x32xf8E5M2>, tensor<64x32xf8E4M3FN>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<16x64xbf16>
  return
}
