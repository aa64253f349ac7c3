// RUN: shardonnx-opt %s --nn-differentiate -verify-diagnostics -split-input-file

// expected-error @below {{there is no @forward to differentiate}}
module {
}

// -----

// expected-error @below {{@forward must report one loss, but reports 0: run nn-attach-loss first}}
func.func @forward() {
  return
}

// -----

nn.parameter @w : tensor<4xf32> {onnx_name = "w"}
func.func @forward() {
  %w = nn.get @w : tensor<4xf32>
  %s = nn.reduce_sum %w {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{no trainable parameter reaches the loss: nothing can be trained}}
  nn.loss %s {denominator = "batches"} : tensor<f32>
  return
}

// -----

module attributes {nn.untrained = [{lost, name = "a", reason = "folded into the constant 'c' by the exporter"},
                                   {name = "b", reason = "not in the graph"}, {lost, name = "d", reason = "left out"}]} {
  nn.parameter @w : tensor<4xf32> {onnx_name = "w"}
  func.func @forward() {
    %w = nn.get @w : tensor<4xf32>
    %s = nn.reduce_sum %w {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    // expected-error @below {{nothing can be trained; 'a' is folded into the constant 'c' by the exporter, and 1 more are not there: export with optimize=False}}
    nn.loss %s {denominator = "batches"} : tensor<f32>
    return
  }
}

// -----

// An op without a gradient on the way to the loss.
nn.parameter @w : tensor<2x8xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<3xi64>) {
  %w = nn.get @w : tensor<2x8xf32>
  %rows = nn.embedding %w, %ids : (tensor<2x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  // expected-error @below {{'nn.embedding_grad' has no gradient, but a trainable parameter reaches the loss through it}}
  %t = nn.embedding_grad %ids, %rows : (tensor<3xi64>, tensor<3x8xf32>) -> tensor<2x8xf32>
  %s = nn.reduce_sum %t {axes = array<i64: 0, 1>} : (tensor<2x8xf32>) -> tensor<f32>
  nn.loss %s {denominator = "batches"} : tensor<f32>
  return
}
