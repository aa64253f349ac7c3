// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From sm_90 on a kernel waits for what it comes behind before it touches
// memory, and so may be launched before that has ended.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx="chip=sm_90" -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx="chip=sm_100" -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx="chip=sm_89" -o /dev/null | FileCheck %s --check-prefix=OLDER

// CHECK-LABEL: .entry double(
// CHECK-NOT: {{(ld|st).global}}
// CHECK: griddepcontrol.wait;
// CHECK-NEXT: griddepcontrol.launch_dependents;
// CHECK: ld.global
// CHECK: st.global

// A column kernel's second launch, too.
// CHECK: .entry sum
// CHECK: griddepcontrol.wait;
// CHECK: .entry sum
// CHECK-NOT: {{(ld|st).global}}
// CHECK: griddepcontrol.wait;

// OLDER-LABEL: .entry double(
// OLDER-NOT: griddepcontrol
exec.kernel @double rows [4096] [memref<4096xf32>, memref<4096xf32>] {
^bb0(%x: tensor<4096xf32>):
  %0 = nn.add %x, %x : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  nn.yield %0 : tensor<4096xf32>
}

exec.kernel @sum columns [32768, 768] [memref<32768x768xbf16>, memref<768xf32>] {
^bb0(%x: tensor<32768x768xbf16>):
  %f = nn.cast %x : tensor<32768x768xbf16> -> tensor<32768x768xf32>
  %s = nn.reduce_sum %f {axes = array<i64: 0>} : (tensor<32768x768xf32>) -> tensor<768xf32>
  nn.yield %s : tensor<768xf32>
}
