// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise kernels: 16 bytes a load and a store, several loads before the
// first store, no call and no local memory.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels | FileCheck %s --check-prefix=SHAPE

// Eight bf16 a vector, two vectors a thread: every load before a store.
// CHECK-LABEL: .entry add_gelu(
// CHECK: .reqntid 256
// CHECK-NOT: .local
// CHECK: ld.param
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-8: ex2.approx.ftz.f32
// CHECK-NOT: div.
// CHECK: rcp.approx.ftz.f32
// CHECK-COUNT-4: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
// CHECK-NOT: call
// CHECK: ret;
// SHAPE-LABEL: llvm.func @add_gelu
// SHAPE-SAME: exec.blocks = 4096
exec.kernel @add_gelu rows [4096, 4096] [memref<4096x4096xbf16>, memref<4096x4096xbf16>, memref<4096x4096xbf16>] {
^bb0(%x: tensor<4096x4096xbf16>, %y: tensor<4096x4096xbf16>):
  %0 = nn.add %x, %y : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = nn.gelu %0 {tanh} : (tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  nn.yield %1 : tensor<4096x4096xbf16>
}

// f32 goes by fours. The few vectors of a small kernel go to many blocks; its
// odd elements to the last.
// CHECK-LABEL: .entry scale(
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ld.global.b32
// CHECK: st.global.b32
// SHAPE-LABEL: llvm.func @scale
// SHAPE-SAME: exec.blocks = 98
exec.kernel @scale rows [3, 33335] [memref<3x33335xf32>, memref<3x33335xf32>] {
^bb0(%x: tensor<3x33335xf32>):
  %c = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.mul %x, %c : (tensor<3x33335xf32>, tensor<f32>) -> tensor<3x33335xf32>
  nn.yield %0 : tensor<3x33335xf32>
}

// A bias that all rows share, and a strided operand: still whole vectors, the
// row number by a multiplication.
// CHECK-LABEL: .entry bias_of_slice(
// CHECK-NOT: div.
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: ld.global.b
// CHECK: st.global.v4.b32
exec.kernel @bias_of_slice rows [512, 768] [memref<512x768xbf16, strided<[2304, 1]>>, memref<768xbf16>, memref<512x768xbf16>] {
^bb0(%x: tensor<512x768xbf16>, %b: tensor<768xbf16>):
  %0 = nn.add %x, %b : (tensor<512x768xbf16>, tensor<768xbf16>) -> tensor<512x768xbf16>
  nn.yield %0 : tensor<512x768xbf16>
}

// Rows that begin at odd addresses go element by element.
// CHECK-LABEL: .entry odd_rows(
// CHECK: ld.global.b16
// CHECK-NOT: ld.global.v
// CHECK: st.global.b16
exec.kernel @odd_rows rows [512, 768] [memref<512x768xbf16, strided<[769, 1]>>, memref<512x768xbf16>] {
^bb0(%x: tensor<512x768xbf16>):
  %0 = nn.neg %x : (tensor<512x768xbf16>) -> tensor<512x768xbf16>
  nn.yield %0 : tensor<512x768xbf16>
}
