// RUN: not shardonnx-opt %s --nn-attach-loss 2>&1 | FileCheck %s
// RUN: not shardonnx-opt %s --nn-attach-loss="kind=mse logits=ids" 2>&1 | FileCheck %s

// No option mends a graph that returns nothing to make a loss of.
// CHECK: error: the graph has no float output that a loss could be made of; export it with its logits or its loss among the outputs
func.func @forward(%x: tensor<2x3xi64> {nn.name = "x"}) -> (tensor<2x3xi64> {nn.name = "ids"}) {
  %ids = nn.add %x, %x : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  return %ids : tensor<2x3xi64>
}
