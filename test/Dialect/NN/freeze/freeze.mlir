// RUN: shardonnx-opt %s --nn-freeze='regex=wte.weight,h\.[0-9]+\..*' | FileCheck %s
// RUN: not shardonnx-opt %s --nn-freeze='regex=wte' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shardonnx-opt %s --nn-freeze='regex=wte(' 2>&1 | FileCheck %s --check-prefix=BAD

// RUN: shardonnx-opt %s --nn-freeze='regex=lm.weight' | FileCheck %s --check-prefix=TIED

// One of a tied parameter's names is enough.
// TIED: nn.untrained = [{asked, name = "tok.weight", reason = "--freeze=lm.weight"}]
// TIED: nn.parameter @tok.weight : tensor<4x2xf32> {names = ["tok.weight", "lm.weight"]

// Only these are trained.
// RUN: shardonnx-opt %s --nn-freeze='trainable=.*c_fc.*,lm.weight' | FileCheck %s --check-prefix=ONLY
// RUN: not shardonnx-opt %s --nn-freeze='trainable=fc' 2>&1 | FileCheck %s --check-prefix=NOTHING
// ONLY: nn.untrained = [{asked, name = "wte.weight", reason = "not in --trainable"}, {asked, name = "head.h.0.x", reason = "not in --trainable"}]
// ONLY: @h.0.c_fc.weight : tensor<2x2xf32> trainable
// ONLY: @tok.weight : tensor<4x2xf32> trainable
// NOTHING: --trainable: no parameter's whole name matches 'fc'

// NONE: --freeze: no parameter's whole name matches 'wte'
// BAD: --freeze: 'wte(' is not a regular expression

// CHECK: nn.parameter @wte.weight : tensor<4x2xf32> {onnx_name = "wte.weight"}
// CHECK: nn.parameter @h.0.c_fc.weight : tensor<2x2xf32> {onnx_name = "w"}
// CHECK: nn.parameter @head.h.0.x : tensor<2x2xf32> trainable
nn.parameter @wte.weight : tensor<4x2xf32> trainable {onnx_name = "wte.weight"}
nn.parameter @h.0.c_fc.weight : tensor<2x2xf32> trainable {onnx_name = "w"}
nn.parameter @head.h.0.x : tensor<2x2xf32> trainable {onnx_name = "x"}
nn.parameter @tok.weight : tensor<4x2xf32> trainable {onnx_name = "tok", names = ["tok.weight", "lm.weight"]}
