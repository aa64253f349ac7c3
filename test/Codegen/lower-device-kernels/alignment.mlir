// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What launches say of their operands decides how wide accesses are: a view
// that begins at an odd multiple of eight bytes halves them.

// RUN: shardonnx-opt %s --exec-lower-device-kernels --exec-print-ptx -o /dev/null | FileCheck %s

// CHECK-LABEL: .entry negate(
// CHECK: ld.global.v2.b32
// CHECK: st.global.v2.b32
exec.kernel @negate rows [1024] [memref<1024xf32>, memref<1024xf32>] {
^bb0(%x: tensor<1024xf32>):
  %0 = nn.neg %x : (tensor<1024xf32>) -> tensor<1024xf32>
  nn.yield %0 : tensor<1024xf32>
}

func.func private @step() {
  %0 = exec.buffer private 0 : memref<2048xf32>
  %1 = exec.view %0[2] : memref<2048xf32> to memref<1024xf32>
  %2 = exec.buffer private 8192 : memref<1024xf32>
  exec.launch @negate(%1) into (%2) : (memref<1024xf32>) -> (memref<1024xf32>)
  return
}
