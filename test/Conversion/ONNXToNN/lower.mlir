// Each ONNX op as nn ops.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x4xf32>, %y: tensor<4xf32>, %c: tensor<2x4xi1>) -> tensor<2x4xf32> {
  // CHECK: nn.sub %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %0 = onnx.node "Sub"(%x, %y) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: nn.neg
  %1 = onnx.node "Neg"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: nn.compare lt
  %2 = onnx.node "Less"(%1, %y) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
  // CHECK: nn.and
  %3 = onnx.node "And"(%2, %c) : (tensor<2x4xi1>, tensor<2x4xi1>) -> tensor<2x4xi1>
  // A logical not is a comparison with false, a test for NaN one with itself.
  // CHECK: %[[NO:.*]] = nn.constant dense<false> : tensor<i1>
  // CHECK: nn.compare eq %{{.*}}, %[[NO]]
  %4 = onnx.node "Not"(%3) : (tensor<2x4xi1>) -> tensor<2x4xi1>
  // CHECK: nn.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %5 = onnx.node "Where"(%4, %1, %y) : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[N:.*]] = nn.gelu %{{.*}} {tanh}
  %6 = onnx.node "Gelu"(%5) {approximate = "tanh"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: nn.compare ne %[[N]], %[[N]]
  %7 = onnx.node "IsNaN"(%6) : (tensor<2x4xf32>) -> tensor<2x4xi1>
  // CHECK: nn.cast %{{.*}} : tensor<2x4xi1> -> tensor<2x4xf32>
  %8 = onnx.node "Cast"(%7) {to = 1 : i64} : (tensor<2x4xi1>) -> tensor<2x4xf32>
  return %8 : tensor<2x4xf32>
}

// -----

// A constant that broadcasts the other operand still gives the full shape.
// CHECK-LABEL: func.func @broadcast_constant
func.func @broadcast_constant(%x: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %c = onnx.node "Constant"() {value = dense<2.0> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  // CHECK: %[[X:.*]] = nn.broadcast %{{.*}} : tensor<1x4xf32> -> tensor<3x4xf32>
  // CHECK: nn.mul %[[X]], %{{.*}} -> tensor<3x4xf32>
  %0 = onnx.node "Mul"(%x, %c) : (tensor<1x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @split
func.func @split(%x: tensor<2x6xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x5xf32>) {
  %two = onnx.node "Constant"() {value_int = 2 : i64} : () -> tensor<i64>
  %c1 = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
  // CHECK: nn.slice %[[X:.*]] {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 2>}
  // CHECK: %[[SECOND:.*]] = nn.slice %[[X]] {offsets = array<i64: 0, 2>, sizes = array<i64: 2, 2>}
  // CHECK: nn.slice %[[X]] {offsets = array<i64: 0, 4>, sizes = array<i64: 2, 2>}
  %seq = onnx.node "SplitToSequence"(%x, %two) {axis = 1 : i64, keepdims = 1 : i64} : (tensor<2x6xf32>, tensor<i64>) -> !onnx.seq<tensor<?x?xf32>>
  %0 = onnx.node "SequenceAt"(%seq, %c1) : (!onnx.seq<tensor<?x?xf32>>, tensor<i64>) -> tensor<2x2xf32>
  // CHECK: %[[LAST:.*]] = nn.slice %[[X]] {offsets = array<i64: 0, 4>, sizes = array<i64: 2, 2>}
  %1:3 = onnx.node "Split"(%x) {axis = -1 : i64, num_outputs = 3 : i64} : (tensor<2x6xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %start = onnx.node "Constant"() {value_ints = array<i64: -5>} : () -> tensor<1xi64>
  %end = onnx.node "Constant"() {value_ints = array<i64: 99>} : () -> tensor<1xi64>
  // CHECK: nn.slice %[[X]] {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 5>}
  %axis = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %2 = onnx.node "Slice"(%x, %start, %end, %axis) : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x5xf32>
  // CHECK: return %[[SECOND]], %[[LAST]]
  return %0, %1#2, %2 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x5xf32>
}

// -----

// Zeros around floats are a pad; any other filler is joined to the tensor.
// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<2x3xf32>, %ids: tensor<2x3xi64>) -> (tensor<2x5xf32>, tensor<2x4xi64>) {
  %two = onnx.node "Constant"() {value_ints = array<i64: 0, 2, 0, 0>} : () -> tensor<4xi64>
  // CHECK: nn.pad %{{.*}} {high = array<i64: 0, 0>, low = array<i64: 0, 2>}
  %0 = onnx.node "Pad"(%x, %two) {mode = "constant"} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<2x5xf32>
  %one = onnx.node "Constant"() {value_ints = array<i64: 0, 0, 0, 1>} : () -> tensor<4xi64>
  %ignored = onnx.node "Constant"() {value_int = -100 : i64} : () -> tensor<i64>
  // CHECK: %[[FILL:.*]] = nn.constant dense<-100> : tensor<2x1xi64>
  // CHECK: nn.concat %{{.*}}, %[[FILL]] {axis = 1 : i64}
  %1 = onnx.node "Pad"(%ids, %one, %ignored) : (tensor<2x3xi64>, tensor<4xi64>, tensor<i64>) -> tensor<2x4xi64>
  return %0, %1 : tensor<2x5xf32>, tensor<2x4xi64>
}

// -----

onnx.initializer @w : tensor<4x8xf32> from "m.onnx"[0, 128] {trainable}
onnx.initializer @b : tensor<8xf32> from "m.onnx"[128, 32] {trainable}

// CHECK: nn.parameter @w : tensor<4x8xf32> trainable {onnx_name = "w", source = #nn.external<file = "m.onnx", offset = 0, length = 128, elementType = f32>}
// Rows are flattened before a two-dimensional matrix.
// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<2x3x4xf32>, %y: tensor<6x4xf32>) -> (tensor<2x3x8xf32>, tensor<6x8xf32>) {
  %w = onnx.get @w : tensor<4x8xf32>
  %b = onnx.get @b : tensor<8xf32>
  // CHECK: %[[W:.*]] = nn.get @w : tensor<4x8xf32>
  // CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  // CHECK: %[[P:.*]] = nn.matmul %[[ROWS]], %[[W]] : {{.*}} -> tensor<6x8xf32>
  // CHECK: nn.reshape %[[P]] : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %0 = onnx.node "MatMul"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
  // CHECK: %[[Q:.*]] = nn.matmul %{{.*}}, %[[W]]
  // CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01>
  // CHECK: %[[S:.*]] = nn.mul %[[Q]], %[[HALF]]
  // CHECK: nn.add %[[S]], %{{.*}} : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  %1 = onnx.node "Gemm"(%y, %w, %b) {alpha = 0.5 : f32, beta = 1.0 : f32, transA = 0 : i64, transB = 0 : i64} : (tensor<6x4xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  return %0, %1 : tensor<2x3x8xf32>, tensor<6x8xf32>
}

// -----

// A weight that was stored transposed is the state dict's matrix again, and a
// half-precision one has an f32 master.
onnx.initializer @fc.weight : tensor<4x8xbf16> from "m.onnx"[0, 64] {graph_name = "val_1", trainable, transposed}
// CHECK: nn.parameter @fc.weight : tensor<8x4xf32> trainable {onnx_name = "val_1", source = #nn.external<file = "m.onnx", offset = 0, length = 64, elementType = bf16, transposed = true>}
// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<2x4xbf16>) -> tensor<2x8xbf16> {
  %w = onnx.get @fc.weight : tensor<4x8xbf16>
  // CHECK: %[[W:.*]] = nn.get @fc.weight : tensor<8x4xbf16>
  // CHECK: nn.transpose %[[W]] {permutation = array<i64: 1, 0>}
  %0 = onnx.node "MatMul"(%x, %w) : (tensor<2x4xbf16>, tensor<4x8xbf16>) -> tensor<2x8xbf16>
  return %0 : tensor<2x8xbf16>
}

// -----

onnx.initializer @wte : tensor<16x4xf32> from "m.onnx"[0, 256] {trainable}
onnx.initializer @wpe : tensor<8x4xf32> from "m.onnx"[256, 128] {trainable}
// Rows at known positions are a slice, the same for every sample.
// CHECK-LABEL: func.func @embedding
func.func @embedding(%ids: tensor<2x3xi64>) -> tensor<2x3x4xf32> {
  %wte = onnx.get @wte : tensor<16x4xf32>
  %wpe = onnx.get @wpe : tensor<8x4xf32>
  %pos = onnx.node "Constant"() {value = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : () -> tensor<1x3xi64>
  // CHECK: nn.embedding %{{.*}}, %arg0 : (tensor<16x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %0 = onnx.node "Gather"(%wte, %ids) : (tensor<16x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: %[[ROWS:.*]] = nn.slice %{{.*}} {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 4>}
  // CHECK: nn.reshape %[[ROWS]] : tensor<3x4xf32> -> tensor<1x3x4xf32>
  %1 = onnx.node "Gather"(%wpe, %pos) : (tensor<8x4xf32>, tensor<1x3xi64>) -> tensor<1x3x4xf32>
  %2 = onnx.node "Add"(%0, %1) : (tensor<2x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x3x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32} : {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>)
  %0 = onnx.node "LayerNormalization"(%x, %w, %b) {axis = -1 : i64, epsilon = 1.0e-5 : f32} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} {epsilon = 9.99999997E-7 : f32}
  %1 = onnx.node "RMSNormalization"(%0, %w) {axis = -1 : i64, epsilon = 1.0e-6 : f32} : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  // Softmax over another axis than the last turns the tensor and back.
  // CHECK: %[[T:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 1>}
  // CHECK: %[[S:.*]] = nn.softmax %[[T]]
  // CHECK: nn.transpose %[[S]] {permutation = array<i64: 0, 2, 1>}
  %2 = onnx.node "Softmax"(%1) {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %axes = onnx.node "Constant"() {value_ints = array<i64: -2>} : () -> tensor<1xi64>
  // CHECK: nn.reduce_mean %{{.*}} {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  %3 = onnx.node "ReduceMean"(%2, %axes) {keepdims = 0 : i64} : (tensor<2x3x4xf32>, tensor<1xi64>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>, %mask: tensor<3x3xi1>) -> tensor<2x4x3x8xf32> {
  // CHECK-DAG: %[[Q:.*]] = nn.transpose %arg0 {permutation = array<i64: 0, 2, 1, 3>}
  // CHECK-DAG: %[[K:.*]] = nn.transpose %arg1
  // CHECK-DAG: %[[V:.*]] = nn.transpose %arg2
  // CHECK: %[[MASK:.*]] = nn.reshape %arg3 : tensor<3x3xi1> -> tensor<1x1x3x3xi1>
  // CHECK: %[[R:[^,]*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]], %[[MASK]] {causal, scale = 2.500000e-01 : f32, softcap = 3.000000e+01 : f32} : {{.*}} -> (tensor<2x3x4x8xf32>, tensor<2x4x3xf32>)
  // CHECK: nn.transpose %[[R]] {permutation = array<i64: 0, 2, 1, 3>}
  %0 = onnx.node "Attention"(%q, %k, %v, %mask) {is_causal = 1 : i64, scale = 0.25 : f32, softcap = 30.0 : f32} : (tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<3x3xi1>) -> tensor<2x4x3x8xf32>
  return %0 : tensor<2x4x3x8xf32>
}

// -----

// CHECK-LABEL: func.func @rotary
func.func @rotary(%x: tensor<2x4x3x4xf32>) -> tensor<2x4x3x4xf32> {
  %cos = onnx.node "Constant"() {value = dense<1.0> : tensor<9x2xf32>} : () -> tensor<9x2xf32>
  %sin = onnx.node "Constant"() {value = dense<0.0> : tensor<9x2xf32>} : () -> tensor<9x2xf32>
  %pos = onnx.node "Constant"() {value = dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
  %row = onnx.node "Constant"() {value = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : () -> tensor<1x3xi64>
  %to = onnx.node "Constant"() {value_ints = array<i64: 2, 3>} : () -> tensor<2xi64>
  %all = onnx.node "Expand"(%row, %to) : (tensor<1x3xi64>, tensor<2xi64>) -> tensor<2x3xi64>
  // CHECK: nn.rotary %{{.*}}, %{{.*}}, %{{.*}} {interleaved} : (tensor<2x3x4x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x4x4xf32>
  %0 = onnx.node "RotaryEmbedding"(%x, %cos, %sin, %all) {interleaved = 1 : i64} : (tensor<2x4x3x4xf32>, tensor<9x2xf32>, tensor<9x2xf32>, tensor<2x3xi64>) -> tensor<2x4x3x4xf32>
  return %0 : tensor<2x4x3x4xf32>
}

// -----

// The mean is the sum over the count of labels, so that means over ranks are exact.
// CHECK-LABEL: func.func @loss
func.func @loss(%logits: tensor<6x16xf32>, %labels: tensor<6xi64>) -> tensor<f32> {
  // CHECK: %[[SUM:.*]] = nn.cross_entropy %arg0, %arg1 : (tensor<6x16xf32>, tensor<6xi64>) -> tensor<f32>
  // CHECK: %[[SKIP:.*]] = nn.constant dense<-100> : tensor<i64>
  // CHECK: %[[KEPT:.*]] = nn.compare ne %arg1, %[[SKIP]]
  // CHECK: %[[ONES:.*]] = nn.select %[[KEPT]]
  // CHECK: %[[COUNT:.*]] = nn.reduce_sum %[[ONES]]
  // CHECK: nn.div %[[SUM]], %[[COUNT]]
  %0 = onnx.node "SoftmaxCrossEntropyLoss"(%logits, %labels) {ignore_index = -100 : i64, reduction = "mean"} : (tensor<6x16xf32>, tensor<6xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// PyTorch's exporters write probabilities of the classes into the same node:
// nothing is ignored, and weights do not divide the mean.
// CHECK-LABEL: func.func @probabilities
func.func @probabilities(%logits: tensor<2x3x4xf32>, %labels: tensor<2x3x4xf32>, %weights: tensor<3xf32>) -> tensor<f32> {
  // CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} -> tensor<8x3xf32>
  // CHECK: %[[LABELS:.*]] = nn.reshape %{{.*}} -> tensor<8x3xf32>
  // CHECK: %[[LOG:.*]] = nn.log_softmax %[[ROWS]]
  // CHECK: %[[SHARES:.*]] = nn.mul %[[LABELS]], %arg2
  // CHECK: nn.mul %[[SHARES]], %[[LOG]]
  // CHECK: %[[SUM:.*]] = nn.reduce_sum %{{.*}} -> tensor<f32>
  // CHECK: %[[SHARE:.*]] = nn.constant dense<1.250000e-01>
  // CHECK: nn.mul %[[SUM]], %[[SHARE]]
  %0 = onnx.node "SoftmaxCrossEntropyLoss"(%logits, %labels, %weights) {ignore_index = -100 : i64, reduction = "mean"} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Below opset 13 a Resize to given sizes has a region and scales of no elements.
// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x4x3xf32> {
  %none = onnx.node "Constant"() {value = dense<> : tensor<0xf32>} : () -> tensor<0xf32>
  %sizes = onnx.node "Constant"() {value_ints = array<i64: 1, 2, 4, 3>} : () -> tensor<4xi64>
  // CHECK: return %{{.*}} : tensor<1x2x4x3xf32>
  %0 = onnx.node "Resize"(%x, %none, %none, %sizes) {mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"} : (tensor<1x2x2x2xf32>, tensor<0xf32>, tensor<0xf32>, tensor<4xi64>) -> tensor<1x2x4x3xf32>
  return %0 : tensor<1x2x4x3xf32>
}

// -----

// What a model of full rotary width leaves unrotated has no elements.
// CHECK-LABEL: func.func @empty_slice
func.func @empty_slice(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %start = onnx.node "Constant"() {value_ints = array<i64: 4>} : () -> tensor<1xi64>
  %end = onnx.node "Constant"() {value_ints = array<i64: 99>} : () -> tensor<1xi64>
  %axis = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %0 = onnx.node "Slice"(%x, %start, %end, %axis) : (tensor<2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x0xf32>
  // CHECK-NOT: nn.slice
  // CHECK: nn.concat %arg0 {axis = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = onnx.node "Concat"(%x, %0) {axis = 1 : i64} : (tensor<2x4xf32>, tensor<2x0xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
