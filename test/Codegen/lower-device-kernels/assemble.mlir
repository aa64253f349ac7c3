// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ptxas takes what is emitted and puts nothing into local memory.

// REQUIRES: cuda
// RUN: shardonnx-opt %S/elementwise.mlir --exec-lower-device-kernels --exec-print-ptx=report -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %S/rows.mlir --exec-lower-device-kernels --exec-print-ptx=report -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %S/columns.mlir --exec-lower-device-kernels --exec-print-ptx=report -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %S/rows-and-columns.mlir --exec-lower-device-kernels --exec-print-ptx=report -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels "--exec-print-ptx=report chip=sm_80" -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels "--exec-print-ptx=report chip=sm_89" -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s --exec-lower-device-kernels "--exec-print-ptx=report chip=sm_100" -o /dev/null | FileCheck %s
// RUN: not shardonnx-opt %s --exec-lower-device-kernels "--exec-print-ptx=report chip=sm_1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK: Compiling entry function
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: {{[1-9][0-9]*}} bytes {{stack|spill}}
// UNKNOWN: unknown GPU 'sm_1': use one of sm_80,

// Every function that a GPU has no instruction for.
exec.kernel @functions rows [4096] [memref<4096xf16>, memref<4096xi1>, memref<4096xf32>, memref<4096xi64>] {
^bb0(%h: tensor<4096xf16>, %k: tensor<4096xi1>):
  %x = nn.cast %h : tensor<4096xf16> -> tensor<4096xf32>
  %0 = nn.tanh %x : (tensor<4096xf32>) -> tensor<4096xf32>
  %1 = nn.erf %0 : (tensor<4096xf32>) -> tensor<4096xf32>
  %2 = nn.sin %1 : (tensor<4096xf32>) -> tensor<4096xf32>
  %3 = nn.cos %2 : (tensor<4096xf32>) -> tensor<4096xf32>
  %4 = nn.pow %3, %x : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %5 = nn.log %4 : (tensor<4096xf32>) -> tensor<4096xf32>
  %6 = nn.sqrt %5 : (tensor<4096xf32>) -> tensor<4096xf32>
  %7 = nn.div %6, %x : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %8 = nn.select %k, %7, %x : (tensor<4096xi1>, tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %9 = nn.cast %8 : tensor<4096xf32> -> tensor<4096xi64>
  nn.yield %8, %9 : tensor<4096xf32>, tensor<4096xi64>
}
