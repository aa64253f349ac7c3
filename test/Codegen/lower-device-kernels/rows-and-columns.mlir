// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A norm's gradients of its rows and of its weight: a block walks over a chunk
// of rows with the weight's sums in registers, and a second launch adds what
// the blocks have.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels | FileCheck %s --check-prefix=SHAPE
// RUN: not shardonnx-opt %s --exec-lower-kernels 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: 'exec.kernel' op sums its rows beside other results, which kernels of GPUs do

// Each row is loaded once, in a loop; the sums are stored behind it.
// CHECK-LABEL: .entry norm_grads(
// CHECK: st.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: @%p{{.*}} bra [[LOOP:.*]];
// CHECK: [[LOOP]]:
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NEXT: ret;
// CHECK-LABEL: .entry norm_grads_totals(
// SHAPE-LABEL: llvm.func @norm_grads(
// SHAPE-SAME: exec.blocks = 257
// SHAPE-LABEL: llvm.func @norm_grads_totals(
// SHAPE-SAME: exec.blocks = 128
exec.kernel @norm_grads rows [8200, 4096] [memref<8200x4096xbf16>, memref<8200x4096xbf16>, memref<8200x4096xbf16>, memref<4096xf32>] {
^bb0(%g: tensor<8200x4096xbf16>, %x: tensor<8200x4096xbf16>):
  %a = nn.cast %g : tensor<8200x4096xbf16> -> tensor<8200x4096xf32>
  %b = nn.cast %x : tensor<8200x4096xbf16> -> tensor<8200x4096xf32>
  %p = nn.mul %a, %b : (tensor<8200x4096xf32>, tensor<8200x4096xf32>) -> tensor<8200x4096xf32>
  %m = nn.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<8200x4096xf32>) -> tensor<8200x1xf32>
  %q = nn.mul %b, %m : (tensor<8200x4096xf32>, tensor<8200x1xf32>) -> tensor<8200x4096xf32>
  %u = nn.sub %a, %q : (tensor<8200x4096xf32>, tensor<8200x4096xf32>) -> tensor<8200x4096xf32>
  %o = nn.cast %u : tensor<8200x4096xf32> -> tensor<8200x4096xbf16>
  %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<8200x4096xf32>) -> tensor<4096xf32>
  nn.yield %o, %s : tensor<8200x4096xbf16>, tensor<4096xf32>
}

// The longest rows, with two sums: nothing is spilled (assemble.mlir).
// CHECK-LABEL: .entry long_grads(
exec.kernel @long_grads rows [8192, 8192] [memref<8192x8192xf32>, memref<8192x8192xf32>, memref<8192x1xf32>, memref<8192x1xf32>, memref<8192xf32>, memref<8192x8192xf32>, memref<8192x8192xf32>, memref<8192xf32>, memref<8192xf32>] {
^bb0(%g: tensor<8192x8192xf32>, %x: tensor<8192x8192xf32>, %mean: tensor<8192x1xf32>, %r: tensor<8192x1xf32>, %w: tensor<8192xf32>, %h: tensor<8192x8192xf32>):
  %z = nn.sub %x, %mean : (tensor<8192x8192xf32>, tensor<8192x1xf32>) -> tensor<8192x8192xf32>
  %n = nn.mul %z, %r : (tensor<8192x8192xf32>, tensor<8192x1xf32>) -> tensor<8192x8192xf32>
  %s = nn.mul %g, %w : (tensor<8192x8192xf32>, tensor<8192xf32>) -> tensor<8192x8192xf32>
  %p = nn.mul %s, %n : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %m = nn.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<8192x8192xf32>) -> tensor<8192x1xf32>
  %k = nn.reduce_mean %s {axes = array<i64: 1>, keepdims} : (tensor<8192x8192xf32>) -> tensor<8192x1xf32>
  %q = nn.mul %n, %m : (tensor<8192x8192xf32>, tensor<8192x1xf32>) -> tensor<8192x8192xf32>
  %u = nn.sub %s, %q : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %v = nn.sub %u, %k : (tensor<8192x8192xf32>, tensor<8192x1xf32>) -> tensor<8192x8192xf32>
  %d = nn.mul %v, %r : (tensor<8192x8192xf32>, tensor<8192x1xf32>) -> tensor<8192x8192xf32>
  %o = nn.add %d, %h : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %y = nn.mul %g, %n : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %dw = nn.reduce_sum %y {axes = array<i64: 0>} : (tensor<8192x8192xf32>) -> tensor<8192xf32>
  %db = nn.reduce_sum %g {axes = array<i64: 0>} : (tensor<8192x8192xf32>) -> tensor<8192xf32>
  nn.yield %o, %dw, %db : tensor<8192x8192xf32>, tensor<8192xf32>, tensor<8192xf32>
}

// 768: a warp a row, sixteen rows a block, joined in order at the end.
// CHECK-LABEL: .entry short_grads(
// CHECK: .reqntid 512
exec.kernel @short_grads rows [8192, 768] [memref<8192x768xbf16>, memref<8192x768xbf16>, memref<8192x768xbf16>, memref<768xf32>] {
^bb0(%g: tensor<8192x768xbf16>, %x: tensor<8192x768xbf16>):
  %a = nn.cast %g : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %b = nn.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %p = nn.mul %a, %b : (tensor<8192x768xf32>, tensor<8192x768xf32>) -> tensor<8192x768xf32>
  %m = nn.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<8192x768xf32>) -> tensor<8192x1xf32>
  %q = nn.mul %b, %m : (tensor<8192x768xf32>, tensor<8192x1xf32>) -> tensor<8192x768xf32>
  %o = nn.cast %q : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<8192x768xf32>) -> tensor<768xf32>
  nn.yield %o, %s : tensor<8192x768xbf16>, tensor<768xf32>
}
