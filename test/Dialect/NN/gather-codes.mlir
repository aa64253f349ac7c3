// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What only products of 8 bits read is gathered as these multiply it, where its
// unit is gathered in 8 bits and has else but norms and biases. These go to a
// unit of their own.

// RUN: shardonnx-opt %s -nn-f8-products=dtype=fp8 -nn-gather-codes=dtype=fp8 | FileCheck %s
// RUN: shardonnx-opt %s -nn-f8-products=dtype=fp8:rowwise -nn-gather-codes=dtype=fp8 | FileCheck %s --check-prefix=NONE
// RUN: shardonnx-opt %s -nn-f8-products=dtype=fp8 -nn-gather-codes=dtype=int8 | FileCheck %s --check-prefix=NONE
// RUN: shardonnx-opt %s -nn-gather-codes=dtype=fp8 | FileCheck %s --check-prefix=NONE

// CHECK: nn.unit_policies = {h.0 = {gather_dtype = "param"}, h.1 = {gather_dtype = "param"}, h.3 = {gather_dtype = "param"}, vectors = {gather_dtype = "fp8", reshard_after_forward = 0 : i64}}
// CHECK: nn.parameter @a {{.*}} {nn.in_codes, {{.*}}place = #nn.place<@h.0>}
// CHECK: nn.parameter @a.bias {{.*}} {onnx_name = "a.bias", place = #nn.place<@vectors>}
// CHECK: nn.parameter @b {{.*}} {nn.in_codes, {{.*}}place = #nn.place<@h.1>}
// CHECK: nn.parameter @c {{.*}} {onnx_name = "c", place = #nn.place<@h.2>}
// CHECK: nn.parameter @c.table {{.*}} {onnx_name = "c.table", place = #nn.place<@h.2>}
// CHECK: nn.parameter @d {{.*}} {onnx_name = "d", place = #nn.place<@h.3>}
// CHECK: nn.parameter @f {{.*}} {onnx_name = "f", place = #nn.place<@root>}
// NONE-NOT: nn.in_codes
// NONE-NOT: @vectors
module attributes {nn.unit_policies = {h.3 = {gather_dtype = "param"}}} {
  nn.parameter @a : tensor<48x32xf32> trainable {onnx_name = "a", place = #nn.place<@h.0>}
  nn.parameter @a.bias : tensor<48xf32> trainable {onnx_name = "a.bias", place = #nn.place<@h.0>}
  nn.parameter @b : tensor<48x32xf32> trainable {onnx_name = "b", place = #nn.place<@h.1>}
  nn.parameter @c : tensor<32x48xf32> trainable {onnx_name = "c", place = #nn.place<@h.2>}
  nn.parameter @c.table : tensor<16x32xf32> trainable {onnx_name = "c.table", place = #nn.place<@h.2>}
  nn.parameter @d : tensor<32x32xf32> trainable {onnx_name = "d", place = #nn.place<@h.3>}
  nn.parameter @f : tensor<32x32xf32> trainable {onnx_name = "f", place = #nn.place<@root>}
  func.func @forward(%x: tensor<16x32xbf16>) {
    %a = nn.get @a {place = #nn.place<@h.0>} : tensor<48x32xbf16>
    %bias = nn.get @a.bias {place = #nn.place<@h.0>} : tensor<48xbf16>
    %0 = nn.matmul %x, %a {place = #nn.place<@h.0>, transpose_rhs} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
    %1 = nn.add %0, %bias {place = #nn.place<@h.0>} : (tensor<16x48xbf16>, tensor<48xbf16>) -> tensor<16x48xbf16>
    %b = nn.get @b {place = #nn.place<@h.1>} : tensor<48x32xbf16>
    %2 = nn.matmul %1, %b {place = #nn.place<@h.1>} : (tensor<16x48xbf16>, tensor<48x32xbf16>) -> tensor<16x32xbf16>
    %c = nn.get @c {place = #nn.place<@h.2>} : tensor<32x48xbf16>
    %table = nn.get @c.table {place = #nn.place<@h.2>} : tensor<16x32xbf16>
    %3 = nn.add %2, %table {place = #nn.place<@h.2>} : (tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x32xbf16>
    %4 = nn.matmul %3, %c {place = #nn.place<@h.2>} : (tensor<16x32xbf16>, tensor<32x48xbf16>) -> tensor<16x48xbf16>
    %d = nn.get @d {place = #nn.place<@h.3>} : tensor<32x32xbf16>
    %5 = nn.matmul %3, %d {place = #nn.place<@h.3>} : (tensor<16x32xbf16>, tensor<32x32xbf16>) -> tensor<16x32xbf16>
    %f = nn.get @f {place = #nn.place<@root>} : tensor<32x32xbf16>
    %6 = nn.matmul %5, %f {place = #nn.place<@root>} : (tensor<16x32xbf16>, tensor<32x32xbf16>) -> tensor<16x32xbf16>
    %7 = nn.cast %6 {place = #nn.place<@root>} : tensor<16x32xbf16> -> tensor<16x32xf32>
    %8 = nn.reduce_sum %7 {axes = array<i64: 0, 1>, place = #nn.place<@root>} : (tensor<16x32xf32>) -> tensor<f32>
    nn.loss %8 {denominator = "elements", place = #nn.place<@root>} : tensor<f32>
    return
  }
}
