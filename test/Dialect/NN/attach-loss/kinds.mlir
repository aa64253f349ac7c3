// RUN: shardonnx-opt %s --nn-attach-loss -split-input-file | FileCheck %s

// A linear head: the logits are never whole. Tied weights are read transposed.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32> {nn.name = "x"}, %[[LABELS:.*]]: tensor<2x4xi64> {nn.kind = "labels", nn.name = "labels"}) {
// CHECK: %[[W:.*]] = nn.get @w
// CHECK-NOT: nn.transpose
// CHECK-DAG: %[[ROWS:.*]] = nn.reshape %[[X]] : tensor<2x4x8xf32> -> tensor<8x8xf32>
// CHECK-DAG: %[[FLAT:.*]] = nn.reshape %[[LABELS]] : tensor<2x4xi64> -> tensor<8xi64>
// CHECK: %[[SUM:.*]] = nn.linear_cross_entropy %[[ROWS]], %[[W]], %[[FLAT]] {transpose_weight}
// CHECK-NEXT: nn.loss %[[SUM]] {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
// CHECK-NEXT: return
nn.parameter @w : tensor<32x8xf32> trainable {onnx_name = "w"}
func.func @forward(%x: tensor<2x4x8xf32> {nn.name = "x"}) -> (tensor<2x4x32xf32> {nn.name = "logits"}, tensor<64xf32> {nn.name = "hidden"}) {
  %w = nn.get @w : tensor<32x8xf32>
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<32x8xf32>) -> tensor<8x32xf32>
  %rows = nn.reshape %x : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %l = nn.matmul %rows, %t : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %logits = nn.reshape %l : tensor<8x32xf32> -> tensor<2x4x32xf32>
  %flat = nn.reshape %x : tensor<2x4x8xf32> -> tensor<64xf32>
  return %logits, %flat : tensor<2x4x32xf32>, tensor<64xf32>
}

// -----

// A bias on the logits keeps them whole.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[L:.*]] = nn.add
// CHECK: nn.cross_entropy %[[L]], %{{.*}} : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<f32>
// CHECK-NEXT: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 3 : i64}
func.func @forward(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> (tensor<3x5xf32> {nn.name = "logits"}) {
  %l = nn.matmul %x, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %s = nn.add %l, %b : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  return %s : tensor<3x5xf32>
}

// -----

// The graph's own mean cross-entropy, with the labels shifted in the graph.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[LABELS:.*]]: tensor<2x4xi64> {nn.kind = "shifted_labels", nn.name = "labels"}) {
// CHECK: %[[SUM:.*]] = nn.linear_cross_entropy
// CHECK: nn.loss %[[SUM]] {denominator = "labels", denominator_arg = 2 : i64, shift = 1 : i64} : tensor<f32>
// CHECK-NOT: nn.div
func.func @forward(%x: tensor<2x4x8xf32>, %w: tensor<8x32xf32>, %labels: tensor<2x4xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}, tensor<2x4x32xf32> {nn.name = "logits"}) {
  %rows = nn.reshape %x : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %l = nn.matmul %rows, %w : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %logits = nn.reshape %l : tensor<8x32xf32> -> tensor<2x4x32xf32>
  %none = nn.constant dense<-100> : tensor<2x1xi64>
  %joined = nn.concat %labels, %none {axis = 1 : i64} : (tensor<2x4xi64>, tensor<2x1xi64>) -> tensor<2x5xi64>
  %next = nn.slice %joined {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 4>} : (tensor<2x5xi64>) -> tensor<2x4xi64>
  %flat = nn.reshape %next : tensor<2x4xi64> -> tensor<8xi64>
  %again = nn.reshape %logits : tensor<2x4x32xf32> -> tensor<8x32xf32>
  %sum = nn.cross_entropy %again, %flat : (tensor<8x32xf32>, tensor<8xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %flat, %skip : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
  %ones = nn.cast %counts : tensor<8xi1> -> tensor<8xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean, %logits : tensor<f32>, tensor<2x4x32xf32>
}

// -----

// A scalar that is no mean cross-entropy is reported as it is.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[S:.*]] = nn.reduce_mean
// CHECK: nn.loss %[[S]] {denominator = "batches"} : tensor<f32>
func.func @forward(%x: tensor<3x4xf32>) -> (tensor<f32> {nn.name = "loss"}) {
  %s = nn.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<3x4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// The sum alone is trained as a sum; any label may be the one that is ignored.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[LABELS:.*]]: tensor<6xi64> {nn.kind = "labels", nn.name = "targets"}) {
// CHECK: %[[SUM:.*]] = nn.cross_entropy %{{.*}} {ignore_index = -1 : i64}
// CHECK: nn.loss %[[SUM]] {denominator = "sum", denominator_arg = 1 : i64} : tensor<f32>
func.func @forward(%x: tensor<6x5xf32>, %labels: tensor<6xi64> {nn.name = "targets"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %x, %labels {ignore_index = -1 : i64} : (tensor<6x5xf32>, tensor<6xi64>) -> tensor<f32>
  return %sum : tensor<f32>
}

// -----

// Divided by the number of rows it is no mean of the labels that count.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {count = 6 : i64, denominator = "elements"} : tensor<f32>
func.func @forward(%x: tensor<6x5xf32>, %labels: tensor<6xi64>) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %x, %labels : (tensor<6x5xf32>, tensor<6xi64>) -> tensor<f32>
  %rows = nn.constant dense<6.0> : tensor<f32>
  %mean = nn.div %sum, %rows : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// What nothing reads wants no data, unless the runtime fills it by its name.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %{{[^ ]*}}: tensor<2x4xi64> {nn.name = "attention_mask"}, %{{[^ ]*}}: tensor<2x5xf32> {nn.name = "x"}, %{{[^ ]*}}: tensor<2xi64> {nn.kind = "labels", nn.name = "labels"}) {
// CHECK: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 2 : i64}
func.func @forward(%unread: tensor<3xf32> {nn.name = "unread"}, %mask: tensor<2x4xi64> {nn.name = "attention_mask"}, %x: tensor<2x5xf32> {nn.name = "x"}) -> (tensor<2x5xf32> {nn.name = "logits"}, tensor<3xf32> {nn.name = "other"}) {
  %r = nn.relu %x : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %o = nn.relu %unread : (tensor<3xf32>) -> tensor<3xf32>
  return %r, %o : tensor<2x5xf32>, tensor<3xf32>
}

// -----

// A scalar of f64, and targets beside a prediction of f64, are rounded: a loss
// is f32.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[L:.*]] = nn.cast %{{.*}} : tensor<f64> -> tensor<f32>
// CHECK: nn.loss %[[L]] {denominator = "batches"} : tensor<f32>
func.func @forward(%x: tensor<3x4xf32>) -> (tensor<f64> {nn.name = "loss"}) {
  %wide = nn.cast %x : tensor<3x4xf32> -> tensor<3x4xf64>
  %s = nn.reduce_sum %wide {axes = array<i64: 0, 1>} : (tensor<3x4xf64>) -> tensor<f64>
  return %s : tensor<f64>
}
