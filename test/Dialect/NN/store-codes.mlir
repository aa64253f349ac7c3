// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A weight that is gathered as what products multiply is read so: along its rows
// where it lies, along its columns in a transposed copy. All weights of a unit
// are, or none.

// RUN: shardonnx-opt %s -nn-store-codes -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @codes
// CHECK: %[[P:.*]] = nn.get @p {place = #nn.place<@h>} : tensor<32x48xf8E4M3FN>
// CHECK: %[[Q:.*]] = nn.get @q {place = #nn.place<@h>} : tensor<32x48xf8E4M3FN>
// CHECK: %[[W:.*]] = nn.concat %[[P]], %[[Q]] {{.*}} -> tensor<64x48xf8E4M3FN>
// CHECK-NOT: nn.f8_cast_matrix
// CHECK: nn.f8_product {{.*}}, %[[W]], %arg2, %[[STEP:[^,]*]] {
// CHECK: %[[COLUMNS:.*]] = nn.transpose %[[W]] {{.*}}#nn.place<@h, recompute>{{.*}} -> tensor<48x64xf8E4M3FN>
// CHECK: nn.f8_product {{.*}}, %[[COLUMNS]]
nn.parameter @p : tensor<32x48xf32> trainable {nn.in_codes, onnx_name = "p", place = #nn.place<@h>}
nn.parameter @q : tensor<32x48xf32> trainable {nn.in_codes, onnx_name = "q", place = #nn.place<@h>}
func.func @codes(%x: tensor<32x48xf8E4M3FN>, %g: tensor<32x64xf8E5M2>, %s: tensor<1x1xf32>) -> (tensor<32x64xbf16>, tensor<32x48xbf16>) {
  %p = nn.get @p {place = #nn.place<@h>} : tensor<32x48xbf16>
  %q = nn.get @q {place = #nn.place<@h>} : tensor<32x48xbf16>
  %w = nn.concat %p, %q {axis = 0 : i64, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
  %t = nn.f8_weight_step [@p, @q] {place = #nn.place<@h>} : tensor<1xf32>
  %sw = nn.reshape %t {place = #nn.place<@h>} : tensor<1xf32> -> tensor<1x1xf32>
  %rows, %unread = nn.f8_cast_matrix e4m3 %w, %sw {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> (tensor<64x48xf8E4M3FN>, tensor<48x64xf8E4M3FN>)
  %y = nn.f8_product %x, %rows, %s, %sw {place = #nn.place<@h>} : (tensor<32x48xf8E4M3FN>, tensor<64x48xf8E4M3FN>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %none, %columns = nn.f8_cast_matrix e4m3 %w, %sw {place = #nn.place<@h, recompute>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> (tensor<64x48xf8E4M3FN>, tensor<48x64xf8E4M3FN>)
  %dx = nn.f8_product %g, %columns, %s, %sw {place = #nn.place<@h, backward>} : (tensor<32x64xf8E5M2>, tensor<48x64xf8E4M3FN>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x48xbf16>
}

// -----

// CHECK-LABEL: func.func @none
// CHECK: nn.get @p {{.*}} : tensor<32x48xbf16>
// CHECK: nn.get @q {{.*}} : tensor<32x48xbf16>
nn.parameter @p : tensor<32x48xf32> trainable {nn.in_codes, onnx_name = "p", place = #nn.place<@h>}
nn.parameter @q : tensor<32x48xf32> trainable {nn.in_codes, onnx_name = "q", place = #nn.place<@h>}
func.func @none() -> (tensor<32x48xf8E4M3FN>, tensor<32x48xbf16>) {
  %p = nn.get @p {place = #nn.place<@h>} : tensor<32x48xbf16>
  %t = nn.f8_weight_step [@p] {place = #nn.place<@h>} : tensor<1xf32>
  %sw = nn.reshape %t {place = #nn.place<@h>} : tensor<1xf32> -> tensor<1x1xf32>
  %rows, %unread = nn.f8_cast_matrix e4m3 %p, %sw {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> (tensor<32x48xf8E4M3FN>, tensor<48x32xf8E4M3FN>)
  %q = nn.get @q {place = #nn.place<@h>} : tensor<32x48xbf16>
  return %rows, %q : tensor<32x48xf8E4M3FN>, tensor<32x48xbf16>
}
