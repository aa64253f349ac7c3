// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales of what ranks of a tensor or context axis have parts of are those of
// the whole: the largest of the ranks' largest values. By rows only what is
// split along a row asks the others.

// RUN: sed s/RECIPE/fp8/ %s | shardonnx-opt -nn-f8-products | FileCheck %s --check-prefix=TENSOR
// RUN: sed s/RECIPE/fp8:rowwise/ %s | shardonnx-opt -nn-f8-products | FileCheck %s --check-prefix=ROWS
// RUN: sed s/RECIPE/fp8/ %s | shardonnx-opt -nn-f8-products -nn-differentiate -nn-decompose -nn-store-f8 | FileCheck %s --check-prefix=STORED

// TENSOR-LABEL: func.func @forward
// The rows are context ranks', the weight's columns tensor ranks'.
// TENSOR: %[[X:.*]] = nn.reduce_max {{.*}} : (tensor<16x32xf32>) -> tensor<1x1xf32>
// TENSOR-NEXT: %[[ALL:.*]] = nn.all_gather %[[X]] {axis = "context", dim = 1 : i64, parts = 4 : i64,
// TENSOR-NEXT: nn.reduce_max %[[ALL]] {axes = array<i64: 1>, keepdims
// TENSOR: %[[W:.*]] = nn.reduce_max {{.*}} : (tensor<48x32xf32>) -> tensor<1x1xf32>
// TENSOR-NEXT: nn.all_gather %[[W]] {axis = "tensor"
// TENSOR: nn.f8_matmul tensorwise {{.*}}grad_axes = ["context", "tensor"]
// The rows of a product along whose depth ranks have parts are theirs, too.
// TENSOR: nn.all_gather {{.*}} {axis = "context"
// TENSOR: nn.all_gather {{.*}} {axis = "tensor"
// TENSOR: nn.all_gather {{.*}} {axis = "tensor"
// TENSOR: nn.f8_matmul tensorwise {{.*}}grad_axes = ["context"]
// TENSOR-NOT: nn.all_gather

// ROWS-LABEL: func.func @forward
// ROWS-NOT: "context"
// ROWS: nn.reduce_max {{.*}} : (tensor<48x32xf32>) -> tensor<48x1xf32>
// ROWS: nn.reduce_max {{.*}} : (tensor<48x1xf32>) -> tensor<1x1xf32>
// ROWS-NEXT: nn.all_gather {{.*}} {axis = "tensor", {{.*}} : (tensor<1x1xf32>) -> tensor<1x2xf32>
// ROWS: nn.f8_matmul rowwise {{.*}}grad_axes = ["tensor"]
// ROWS: nn.all_gather {{.*}} {axis = "tensor", {{.*}} : (tensor<16x1xf32>) -> tensor<16x2xf32>
// ROWS: nn.all_gather {{.*}} {axis = "tensor", {{.*}} : (tensor<32x1xf32>) -> tensor<32x2xf32>
// ROWS-NOT: nn.all_gather
// ROWS: nn.f8_matmul rowwise
// ROWS-NOT: grad_axes

// What is stored in 8 bits asks for the largest step.
// STORED-LABEL: func.func @microbatch
// STORED-NOT: nn.f8_step
// STORED: %[[STEP:.*]] = nn.f8_tensor_step e4m3
// STORED: %[[PART:.*]] = nn.reshape %[[STEP]]
// STORED-NEXT: nn.all_gather %[[PART]] {axis = "context"
// STORED-NOT: nn.f8_step

module attributes {nn.mesh = {context = 4 : i64, tensor = 2 : i64}, nn.reduce_dtype = f32, nn.unit_policies = {h = {matmul_dtype = "RECIPE"}}} {
  nn.parameter @w : tensor<48x32xf32> trainable {nn.split = {axis = "tensor", dim = 0 : i64, sections = array<i64: 96>}, onnx_name = "w", place = #nn.place<@h>}
  nn.parameter @v : tensor<32x48xf32> trainable {nn.split = {axis = "tensor", dim = 1 : i64, sections = array<i64: 96>}, onnx_name = "v", place = #nn.place<@h>}
  func.func @forward(%x: tensor<16x32xf32>) {
    %w = nn.get @w {place = #nn.place<@h>} : tensor<48x32xf32>
    %0 = nn.matmul %x, %w {place = #nn.place<@h>, transpose_rhs} : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
    %v = nn.get @v {place = #nn.place<@h>} : tensor<32x48xf32>
    %1 = nn.matmul %0, %v {place = #nn.place<@h>, transpose_rhs} : (tensor<16x48xf32>, tensor<32x48xf32>) -> tensor<16x32xf32>
    %2 = nn.all_reduce %1 {axis = "tensor", parts = 2 : i64, place = #nn.place<@h>} : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %3 = nn.reduce_sum %2 {axes = array<i64: 0, 1>, place = #nn.place<@root>} : (tensor<16x32xf32>) -> tensor<f32>
    nn.loss %3 {denominator = "elements", place = #nn.place<@root>} : tensor<f32>
    return
  }
}
