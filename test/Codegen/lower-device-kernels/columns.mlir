// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Column kernels: partial sums of chunks of rows, then the chunks in order; no
// atomics.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels | FileCheck %s --check-prefix=SHAPE

// CHECK-LABEL: .entry bias_gradient(
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar.sync
// CHECK: st.global.b32
// CHECK-NOT: atom
// CHECK-LABEL: .entry bias_gradient_totals(
// CHECK-COUNT-4: ld.global.b32
// CHECK: bar.sync
// CHECK: st.global.b32
// CHECK-NOT: atom
// SHAPE-LABEL: llvm.func @bias_gradient(
// SHAPE-SAME: exec.blocks = 528
// SHAPE-LABEL: llvm.func @bias_gradient_totals(
// SHAPE-SAME: exec.blocks = 24
exec.kernel @bias_gradient columns [32768, 768] [memref<32768x768xbf16>, memref<768xf32>] {
^bb0(%x: tensor<32768x768xbf16>):
  %f = nn.cast %x : tensor<32768x768xbf16> -> tensor<32768x768xf32>
  %s = nn.reduce_sum %f {axes = array<i64: 0>} : (tensor<32768x768xf32>) -> tensor<768xf32>
  nn.yield %s : tensor<768xf32>
}

// Few rows: one launch does it all.
// SHAPE-LABEL: llvm.func @few_rows(
// SHAPE-NOT: llvm.func
exec.kernel @few_rows columns [32, 768] [memref<32x768xf32>, memref<768xf32>] {
^bb0(%x: tensor<32x768xf32>):
  %s = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<32x768xf32>) -> tensor<768xf32>
  nn.yield %s : tensor<768xf32>
}
