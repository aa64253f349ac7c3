// RUN: shardonnx-opt %s --nn-attach-loss -split-input-file 2>&1 | FileCheck %s

// Of scalars beside logits the one that alone is of labels and has gradients is
// the graph's loss: no accuracy, which has none, and no penalty.
// CHECK: remark: of the graph's scalars loss is trained, which alone is of labels and has gradients; --logits=NAME says otherwise
// CHECK: func.func @forward(
// CHECK: %[[LOSS:.*]] = nn.reduce_mean %{{.*}} {axes = array<i64: 0, 1>}
// CHECK-NOT: nn.cross_entropy
// CHECK: nn.loss %[[LOSS]] {denominator = "batches"}
nn.parameter @w : tensor<3x4xf32> trainable {onnx_name = "w"}
func.func @forward(%x: tensor<2x3xf32> {nn.name = "x"}, %t: tensor<2x4xf32> {nn.name = "t"}) -> (tensor<f32> {nn.name = "loss"}, tensor<2x4xf32> {nn.name = "logits"}, tensor<f32> {nn.name = "accuracy"}, tensor<f32> {nn.name = "penalty"}) {
  %w = nn.get @w : tensor<3x4xf32>
  %logits = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %d = nn.sub %logits, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = nn.abs %d : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = nn.reduce_mean %a {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  %same = nn.compare gt %logits, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  %right = nn.cast %same : tensor<2x4xi1> -> tensor<2x4xf32>
  %accuracy = nn.reduce_mean %right {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  %b = nn.abs %logits : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %penalty = nn.reduce_mean %b {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  return %loss, %logits, %accuracy, %penalty : tensor<f32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>
}
