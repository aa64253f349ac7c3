// RUN: shardonnx-opt %s --nn-attach-loss 2>&1 >/dev/null | FileCheck %s --check-prefix=TWICE
//
// A graph that ends in its probabilities has its softmax taken twice.

// TWICE: warning: output y is a Softmax, and the cross-entropy takes one itself: the loss is that of probabilities taken for logits; export the logits as an output and name it with --logits
func.func @forward(%x: tensor<4x3xf32>) -> (tensor<4x3xf32> {nn.name = "y"}) {
  %y = nn.softmax %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
