// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix of 8 bits that lies transposed, beside one that does not: a thread
// has vectors of eight rows and stores eight bytes of each of their columns.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx=chip=sm_90 -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels | FileCheck %s --check-prefix=SHAPE
// RUN: %if cuda %{ shardonnx-opt %s --exec-lower-device-kernels "--exec-print-ptx=report chip=sm_90" -o /dev/null | FileCheck %s --check-prefix=SPILLS %}

// CHECK-LABEL: .entry both(
// CHECK-NOT: st.global.b8
// CHECK-COUNT-8: st.global.v4.b32
// CHECK-NOT: st.global.b8
// CHECK-COUNT-8: st.global.{{v2.b32|b64}}
// CHECK-NOT: st.global
// SHAPE: llvm.func @both({{.*}}exec.blocks = 2048
// SPILLS: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
exec.kernel @both rows [8192, 4096] [memref<8192x4096xbf16>, memref<1xf32>, memref<8192x4096xbf16>, memref<8192x4096xf8E4M3FN, strided<[1, 8192]>>] {
^bb0(%x: tensor<8192x4096xbf16>, %s: tensor<1xf32>):
  %0 = nn.silu %x : (tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  %1 = nn.f8_cast e4m3 %0, %s : (tensor<8192x4096xbf16>, tensor<1xf32>) -> tensor<8192x4096xf8E4M3FN>
  nn.yield %0, %1 : tensor<8192x4096xbf16>, tensor<8192x4096xf8E4M3FN>
}
