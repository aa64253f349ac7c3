// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels: part of a warp, a warp or a block a row; each row is read once.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels | FileCheck %s --check-prefix=SHAPE

// 768 bf16: a warp with three vectors a thread, four rows a block; two rounds
// of shuffles, no barrier.
// CHECK-LABEL: .entry softmax(
// CHECK: .reqntid 128
// CHECK-COUNT-3: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: ex2.approx.ftz.f32
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK-NOT: bar.sync
// CHECK-COUNT-3: st.global.v4.b32
// CHECK: ret;
// SHAPE-LABEL: llvm.func @softmax
// SHAPE-SAME: exec.blocks = 2048
exec.kernel @softmax rows [8192, 768] [memref<8192x768xbf16>, memref<8192x768xbf16>] {
^bb0(%x: tensor<8192x768xbf16>):
  %m = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<8192x768xbf16>) -> tensor<8192x1xbf16>
  %s = nn.sub %x, %m : (tensor<8192x768xbf16>, tensor<8192x1xbf16>) -> tensor<8192x768xbf16>
  %e = nn.exp %s : (tensor<8192x768xbf16>) -> tensor<8192x768xbf16>
  %t = nn.reduce_sum %e {axes = array<i64: 1>, keepdims} : (tensor<8192x768xbf16>) -> tensor<8192x1xbf16>
  %p = nn.div %e, %t : (tensor<8192x768xbf16>, tensor<8192x1xbf16>) -> tensor<8192x768xbf16>
  nn.yield %p : tensor<8192x768xbf16>
}

// 4096: a block a row, warps joined in shared memory by one barrier a phase.
// CHECK-LABEL: .entry rms_norm(
// CHECK: ld.global.v4.b32
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK: rsqrt.approx.f32
// CHECK-NOT: bar.sync
// CHECK: st.global.v4.b32
exec.kernel @rms_norm rows [4096, 4096] [memref<4096x4096xbf16>, memref<4096xbf16>, memref<4096x4096xbf16>, memref<4096x1xf32>] {
^bb0(%x: tensor<4096x4096xbf16>, %w: tensor<4096xbf16>):
  %f = nn.cast %x : tensor<4096x4096xbf16> -> tensor<4096x4096xf32>
  %q = nn.mul %f, %f : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %m = nn.reduce_mean %q {axes = array<i64: 1>, keepdims} : (tensor<4096x4096xf32>) -> tensor<4096x1xf32>
  %c = nn.constant dense<1.0e-6> : tensor<f32>
  %a = nn.add %m, %c : (tensor<4096x1xf32>, tensor<f32>) -> tensor<4096x1xf32>
  %r = nn.rsqrt %a : (tensor<4096x1xf32>) -> tensor<4096x1xf32>
  %n = nn.mul %f, %r : (tensor<4096x4096xf32>, tensor<4096x1xf32>) -> tensor<4096x4096xf32>
  %v = nn.cast %w : tensor<4096xbf16> -> tensor<4096xf32>
  %y = nn.mul %n, %v : (tensor<4096x4096xf32>, tensor<4096xf32>) -> tensor<4096x4096xf32>
  %o = nn.cast %y : tensor<4096x4096xf32> -> tensor<4096x4096xbf16>
  nn.yield %o, %r : tensor<4096x4096xbf16>, tensor<4096x1xf32>
}

// 64 elements: eight threads a row, sixteen rows a block.
// CHECK-LABEL: .entry head_norm(
// CHECK: ld.global.v4.b32
// CHECK-COUNT-3: shfl.sync.bfly
// CHECK-NOT: shfl
// CHECK: st.global.v4.b32
// SHAPE-LABEL: llvm.func @head_norm
// SHAPE-SAME: exec.blocks = 4096
exec.kernel @head_norm rows [4096, 16, 64] [memref<4096x16x64xbf16>, memref<4096x16x64xbf16>] {
^bb0(%x: tensor<4096x16x64xbf16>):
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims} : (tensor<4096x16x64xbf16>) -> tensor<4096x16x1xbf16>
  %n = nn.sub %x, %m : (tensor<4096x16x64xbf16>, tensor<4096x16x1xbf16>) -> tensor<4096x16x64xbf16>
  nn.yield %n : tensor<4096x16x64xbf16>
}

// Too long for registers, and odd: a block a row that reads it twice.
// CHECK-LABEL: .entry long_row(
// CHECK: .reqntid 512
// CHECK: ld.global.b16
// CHECK: bar.sync
// CHECK: ld.global.b16
// CHECK: st.global.b16
exec.kernel @long_row rows [64, 50257] [memref<64x50257xbf16>, memref<64x50257xbf16>] {
^bb0(%x: tensor<64x50257xbf16>):
  %m = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<64x50257xbf16>) -> tensor<64x1xbf16>
  %s = nn.sub %x, %m : (tensor<64x50257xbf16>, tensor<64x1xbf16>) -> tensor<64x50257xbf16>
  nn.yield %s : tensor<64x50257xbf16>
}
