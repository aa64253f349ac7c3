// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of weights are taken behind all optimizers; what is gathered in 8
// bits is there behind them, whether it is kept or gathered early.

// RUN: shardonnx-opt %s -fsdp-shard=strategy=shard_opt -fsdp-schedule | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: shardonnx-opt %s -fsdp-shard -fsdp-schedule=gather-early=true | FileCheck %s --check-prefixes=CHECK,EARLY

// CHECK: fsdp.unit @h sharded f8E4M3FN reduce f32
// CHECK-LABEL: func.func @update
// CHECK: fsdp.clip_grad_norm
// CHECK-NEXT: fsdp.optimizer @root
// KEPT-NEXT: fsdp.all_gather_start @root
// EARLY-NEXT: fsdp.all_gather_start @root
// CHECK-NEXT: fsdp.optimizer @h
// CHECK-NEXT: fsdp.weight_steps
// CHECK-NEXT: fsdp.all_gather_start @h
// CHECK-NEXT: return
module {
  nn.parameter @r : tensor<16x16xf32> trainable {onnx_name = "r", place = #nn.place<@root>}
  nn.parameter @w : tensor<16x16xf32> trainable {nn.in_codes, onnx_name = "w", place = #nn.place<@h>}
  func.func @microbatch(%x: tensor<16x16xf8E4M3FN>, %y: tensor<16x16xf32>) {
    %r = nn.get @r {place = #nn.place<@root>} : tensor<16x16xf32>
    %z = nn.matmul %y, %r {place = #nn.place<@root>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %s = nn.f8_weight_step [@w] {place = #nn.place<@h>} : tensor<1xf32>
    %w = nn.get @w {place = #nn.place<@h>} : tensor<16x16xf8E4M3FN>
    %p = nn.f8_product %x, %w, %s, %s {place = #nn.place<@h>} : (tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN>, tensor<1xf32>, tensor<1xf32>) -> tensor<16x16xf32>
    %q = nn.add %p, %z {place = #nn.place<@h>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %sum = nn.reduce_sum %q {axes = array<i64: 0, 1>, place = #nn.place<@root>} : (tensor<16x16xf32>) -> tensor<f32>
    nn.loss %sum {denominator = "elements", place = #nn.place<@root>} : tensor<f32>
    %seed = nn.loss_scale {place = #nn.place<@root, backward>} : tensor<f32>
    %g = nn.broadcast %seed {place = #nn.place<@root, backward>} : tensor<f32> -> tensor<16x16xf32>
    nn.grad @w, %g {place = #nn.place<@h, backward>} : tensor<16x16xf32>
    %gr = nn.matmul %y, %g {place = #nn.place<@root, backward>, transpose_lhs} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    nn.grad @r, %gr {place = #nn.place<@root, backward>} : tensor<16x16xf32>
    return
  }
}
