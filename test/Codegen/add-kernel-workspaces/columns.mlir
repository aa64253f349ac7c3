// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel in two stages gets memory for its partial sums, f32, one row of
// columns for each block of rows; one in a single stage gets none. A kernel over
// rows that sums columns, too, has two stages always.

// RUN: shardonnx-opt %s --exec-add-kernel-workspaces | FileCheck %s

exec.kernel @many_rows columns [32768, 768] [memref<32768x768xf32>, memref<768xf32>] {
^bb0(%x: tensor<32768x768xf32>):
  %s = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<32768x768xf32>) -> tensor<768xf32>
  nn.yield %s : tensor<768xf32>
}
exec.kernel @few_rows columns [32, 768] [memref<32x768xf32>, memref<768xf32>] {
^bb0(%x: tensor<32x768xf32>):
  %s = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<32x768xf32>) -> tensor<768xf32>
  nn.yield %s : tensor<768xf32>
}
exec.kernel @beside_rows rows [32, 768] [memref<32x768xf32>, memref<32x768xf32>, memref<768xf32>] {
^bb0(%x: tensor<32x768xf32>):
  %n = nn.neg %x : (tensor<32x768xf32>) -> tensor<32x768xf32>
  %s = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<32x768xf32>) -> tensor<768xf32>
  nn.yield %n, %s : tensor<32x768xf32>, tensor<768xf32>
}
func.func @first_microbatch() {
  %x = exec.alloc : memref<32768x768xf32>
  %few = exec.alloc : memref<32x768xf32>
  %s = exec.alloc : memref<768xf32>
  exec.zero %x : memref<32768x768xf32>
  exec.zero %few : memref<32x768xf32>
  // CHECK: %[[SPACE:.*]] = exec.alloc : memref<[[BYTES:[0-9]+]]xi8>
  // CHECK: exec.launch @many_rows({{.*}}) into ({{.*}}) workspace %[[SPACE]] : memref<[[BYTES]]xi8>
  exec.launch @many_rows(%x) into (%s) : (memref<32768x768xf32>) -> (memref<768xf32>)
  // CHECK: exec.launch @few_rows({{.*}}) into ({{[^)]*}}) :
  exec.launch @few_rows(%few) into (%s) : (memref<32x768xf32>) -> (memref<768xf32>)
  // Eight chunks of four rows.
  // CHECK: %[[PARTS:.*]] = exec.alloc : memref<24576xi8>
  // CHECK: exec.launch @beside_rows({{.*}}) into ({{.*}}) workspace %[[PARTS]]
  %n = exec.alloc : memref<32x768xf32>
  exec.launch @beside_rows(%few) into (%n, %s) : (memref<32x768xf32>) -> (memref<32x768xf32>, memref<768xf32>)
  return
}
