// RUN: not shardonnx-opt %s --nn-attach-loss 2>&1 | FileCheck %s
// RUN: shardonnx-opt %s --nn-attach-loss=kind=causal-lm | FileCheck %s --check-prefix=ASKED

// What a model without a head returns is not taken for logits by its shape.
// CHECK: error: output last_hidden_state of shape [2,3,4] holds no logits, by its name; say what it is trained for: --loss=mse, or --loss=causal-lm if these are logits
// ASKED: nn.loss
func.func @forward(%x: tensor<2x3x4xf32> {nn.name = "x"}) -> (tensor<2x3x4xf32> {nn.name = "last_hidden_state"}) {
  %w = nn.get @w : tensor<4x4xf32>
  %y = nn.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}
nn.parameter @w : tensor<4x4xf32> trainable {onnx_name = "w"}
