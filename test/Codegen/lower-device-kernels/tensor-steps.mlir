// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step of a whole tensor beside the tensor: one atomic maximum for each
// block of threads, of the elements that were stored anyway.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s
// RUN: not shardonnx-opt %s --exec-lower-kernels 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: 'exec.kernel' op takes a step of whole tensors, which kernels of GPUs do

// CHECK-LABEL: .entry elements(
// CHECK: ld.global
// CHECK-NOT: atom
// CHECK: bar.sync
// CHECK: setp.ne.b32 [[OTHER:%p[0-9]+]]
// CHECK: @[[OTHER]] bra [[END:.*]];
// CHECK-COUNT-1: atom.global.max.u32
// CHECK-NOT: atom
// CHECK: [[END]]:
// CHECK-NEXT: ret;
exec.kernel @elements rows [8192, 4096] [memref<8192x4096xbf16>, memref<8192x4096xbf16>, memref<1xf32>] {
^bb0(%x: tensor<8192x4096xbf16>):
  %0 = nn.relu %x : (tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  %1 = nn.f8_tensor_step e4m3 %0 : (tensor<8192x4096xbf16>) -> tensor<1xf32>
  nn.yield %0, %1 : tensor<8192x4096xbf16>, tensor<1xf32>
}

// The row stays in registers.
// CHECK-LABEL: .entry rows(
// CHECK-COUNT-2: ld.global.v4
// CHECK-NOT: ld.global
// CHECK-COUNT-2: st.global.v4
// CHECK-COUNT-1: atom.global.max.u32
// CHECK-NOT: atom
exec.kernel @rows rows [8192, 4096] [memref<8192x4096xbf16>, memref<8192x4096xbf16>, memref<1xf32>] {
^bb0(%x: tensor<8192x4096xbf16>):
  %0 = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<8192x4096xbf16>) -> tensor<8192x1xbf16>
  %1 = nn.sub %x, %0 : (tensor<8192x4096xbf16>, tensor<8192x1xbf16>) -> tensor<8192x4096xbf16>
  %2 = nn.f8_tensor_step e5m2 %1 : (tensor<8192x4096xbf16>) -> tensor<1xf32>
  nn.yield %1, %2 : tensor<8192x4096xbf16>, tensor<1xf32>
}
