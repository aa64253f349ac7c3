// RUN: not shardonnx-opt %s --nn-attach-loss 2>&1 | FileCheck %s --check-prefix=UNTOLD
// RUN: not shardonnx-opt %s --nn-attach-loss=logits=y 2>&1 | FileCheck %s --check-prefix=UNTOLD
// RUN: not shardonnx-opt %s --nn-attach-loss=kind=cross-entropy 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: shardonnx-opt %s --nn-attach-loss=kind=mse | FileCheck %s --check-prefix=MSE
// RUN: shardonnx-opt %s --nn-attach-loss=kind=graph | FileCheck %s --check-prefix=GRAPH
//
// One number a sample, in a batch of one, is neither a class nor a loss unless
// the command line says so.

// UNTOLD: error: cannot tell the loss from the shape [1,1] of output y; say which with --loss (mse for a regression)
// CLASS: error: --loss=cross-entropy: output y is [1,1], and a cross-entropy of one class is always 0; --loss=mse is for a regression
// MSE: nn.loss %{{.*}} {denominator = "elements"}
// GRAPH: nn.loss %{{.*}} {denominator = "batches"}
func.func @forward(%x: tensor<1x1xf32>) -> (tensor<1x1xf32> {nn.name = "y"}) {
  %y = nn.tanh %x : (tensor<1x1xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}
