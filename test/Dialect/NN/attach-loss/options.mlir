// RUN: shardonnx-opt %s --nn-attach-loss="kind=mse logits=b" | FileCheck %s --check-prefix=MSE
// RUN: shardonnx-opt %s --nn-attach-loss="kind=cross-entropy logits=a" | FileCheck %s --check-prefix=CE
// RUN: not shardonnx-opt %s --nn-attach-loss 2>&1 | FileCheck %s --check-prefix=AMBIGUOUS
// RUN: not shardonnx-opt %s --nn-attach-loss=logits=c 2>&1 | FileCheck %s --check-prefix=NONAME
// RUN: not shardonnx-opt %s --nn-attach-loss=kind=hinge 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not shardonnx-opt %s --nn-attach-loss="kind=graph logits=a" 2>&1 | FileCheck %s --check-prefix=SCALAR
//
// What --loss and --logits choose, and what they are told.

// MSE: func.func @forward(%{{.*}}: tensor<2x3x4xf32>, %[[T:.*]]: tensor<2x3x4xf32> {nn.kind = "labels", nn.name = "labels"}) {
// MSE: nn.exp
// MSE-NOT: nn.tanh
// MSE: nn.mse %{{.*}}, %[[T]]
// MSE: nn.loss %{{.*}} {count = 24 : i64, denominator = "elements"} : tensor<f32>

// The old labels go, as nothing else reads them.
// CE: func.func @forward(%{{.*}}: tensor<2x3x4xf32>, %{{.*}}: tensor<2x3xi64> {nn.kind = "labels", nn.name = "labels"}) {
// CE: nn.tanh
// CE: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 1 : i64}

// AMBIGUOUS: error: cannot tell which output the loss is made of; the graph's float outputs are: a [2,3,4], b [2,3,4]; name one with --logits=NAME
// NONAME: error: --logits=c names no float output of the graph; its float outputs are: a [2,3,4], b [2,3,4]
// KIND: error: --loss=hinge is unknown; it is causal-lm, cross-entropy, mse or graph
// SCALAR: error: --loss=graph needs a scalar output, but a is [2,3,4]; choose another with --logits
func.func @forward(%labels: tensor<2x3xi64> {nn.name = "labels"}, %x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32> {nn.name = "a"}, tensor<2x3x4xf32> {nn.name = "b"}, tensor<2x3xi64> {nn.name = "ids"}) {
  %a = nn.tanh %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %b = nn.exp %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %ids = nn.add %labels, %labels : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  return %a, %b, %ids : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3xi64>
}
