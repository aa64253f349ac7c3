// RUN: shardonnx-opt %s -nn-assign-units | FileCheck %s --check-prefix=BLOCK
// RUN: shardonnx-opt %s -nn-assign-units=unit=size:100 | FileCheck %s --check-prefix=SIZE
// RUN: shardonnx-opt %s "-nn-assign-units=unit=h.[0-9]+,h.1.mlp" | FileCheck %s --check-prefix=REGEX
// RUN: not shardonnx-opt %s -nn-assign-units=unit=h.9 2>&1 | FileCheck %s --check-prefix=NOMODULE
// RUN: shardonnx-opt %s -nn-assign-units=unit=h.1.mlp,block | FileCheck %s --check-prefix=MIXED
// RUN: shardonnx-opt %s -nn-assign-units=unit=h.1,size:64 | FileCheck %s --check-prefix=REST
// RUN: shardonnx-opt %s -nn-assign-units=unit=wte,lm_head,block | FileCheck %s --check-prefix=TIED
// RUN: not shardonnx-opt %s -nn-assign-units=unit=root 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not shardonnx-opt %s -nn-assign-units=unit=size:8,size:9 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shardonnx-opt %s -nn-assign-units=unit=size:-3 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not shardonnx-opt %s "-nn-assign-units=unit=h.(1" 2>&1 | FileCheck %s --check-prefix=SYNTAX

// NOMODULE: error: --unit=h.9 matches no module
// ROOT:     error: --unit=root: root is what is left
// TWICE:    error: --unit, units: size:N may be given once
// NEGATIVE: error: --unit=size:-3: size: wants a positive number of elements
// SYNTAX:   error: --unit=h.(1: 'h.(1' is not a regular expression

// The tied table is read by the embedding and by the head; the norm's bias has
// no path in its name, so it goes with its user.
// BLOCK: @wte.weight {{.*}}place = #nn.place<@root>
// BLOCK: @h.0.w {{.*}}place = #nn.place<@h.0>
// BLOCK: @h.1.mlp.w {{.*}}place = #nn.place<@h.1>
// BLOCK: @val_7 {{.*}}place = #nn.place<@h.1>
// SIZE: @wte.weight {{.*}}place = #nn.place<@root>
// SIZE: @h.0.w {{.*}}place = #nn.place<@unit.0>
// SIZE: @h.1.mlp.w {{.*}}place = #nn.place<@unit.0>
// SIZE: @val_7 {{.*}}place = #nn.place<@unit.0>
// REGEX: @h.0.w {{.*}}place = #nn.place<@h.0>
// REGEX: @h.1.mlp.w {{.*}}place = #nn.place<@h.1.mlp>
// REGEX: @val_7 {{.*}}place = #nn.place<@h.1>
// Blocks, and a module inside one of them.
// MIXED: @wte.weight {{.*}}place = #nn.place<@root>
// MIXED: @h.0.w {{.*}}place = #nn.place<@h.0>
// MIXED: @h.1.mlp.w {{.*}}place = #nn.place<@h.1.mlp>
// MIXED: @val_7 {{.*}}place = #nn.place<@h.1>
// Of what is left the tied table stays in the root.
// REST: @wte.weight {{.*}}place = #nn.place<@root>
// REST: @h.0.w {{.*}}place = #nn.place<@unit.0>
// REST: @h.1.mlp.w {{.*}}place = #nn.place<@h.1>
// REST: @val_7 {{.*}}place = #nn.place<@h.1>
// The user named the embedding: it owns the table, which the head reads too.
// TIED: @wte.weight {{.*}}place = #nn.place<@wte>
// TIED: nn.get @wte.weight {place = #nn.place<@wte>}
// TIED: nn.embedding {{.*}}place = #nn.place<@wte>
// TIED: nn.matmul {{.*}}place = #nn.place<@wte>, transpose_rhs
nn.parameter @wte.weight : tensor<32x8xf32> trainable {onnx_name = "wte.weight"}
nn.parameter @h.0.w : tensor<8x8xf32> trainable {onnx_name = "h.0.w"}
nn.parameter @h.1.mlp.w : tensor<8x8xf32> trainable {onnx_name = "h.1.mlp.w"}
nn.parameter @val_7 : tensor<8xf32> trainable {onnx_name = "val_7"}

func.func @main(%ids: tensor<4xi64>) -> tensor<4x32xf32> {
  // BLOCK: nn.get @wte.weight {place = #nn.place<@root>}
  %wte = nn.get @wte.weight : tensor<32x8xf32>
  // BLOCK: nn.embedding {{.*}}place = #nn.place<@root>
  %x = nn.embedding %wte, %ids {place = #nn.place<"wte">} : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // BLOCK: nn.get @h.0.w {place = #nn.place<@h.0>}
  %w0 = nn.get @h.0.w : tensor<8x8xf32>
  // BLOCK: nn.matmul {{.*}}place = #nn.place<@h.0>
  %m0 = nn.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // Neither path nor parameter: with what it reads.
  // BLOCK: nn.add {{.*}}place = #nn.place<@h.0>
  %x1 = nn.add %x, %m0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // A constant goes with its user.
  // BLOCK: nn.constant {{.*}}place = #nn.place<@h.1>
  %half = nn.constant dense<0.5> : tensor<f32>
  %b = nn.get @val_7 : tensor<8xf32>
  // BLOCK: nn.mul {{.*}}place = #nn.place<@h.1>
  %s = nn.mul %b, %half {place = #nn.place<"h.1">} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w1 = nn.get @h.1.mlp.w : tensor<8x8xf32>
  // BLOCK: nn.matmul {{.*}}place = #nn.place<@h.1>
  // REGEX: nn.matmul
  // REGEX: nn.matmul {{.*}}place = #nn.place<@h.1.mlp>
  %m1 = nn.matmul %x1, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // BLOCK: nn.add {{.*}}place = #nn.place<@h.1>
  %a1 = nn.add %m1, %s {place = #nn.place<"h.1">} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // BLOCK: nn.matmul {{.*}}place = #nn.place<@root>
  %logits = nn.matmul %a1, %wte {place = #nn.place<"lm_head">, transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  return %logits : tensor<4x32xf32>
}
