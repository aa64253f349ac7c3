// ONNX ops that choose elements, as nn ops.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// Slices of the first axis are rows of a table.
// CHECK-LABEL: func.func @experts
func.func @experts(%w: tensor<4x6x3xf32>, %i: tensor<8x1xi64>) -> tensor<8x6x3xf32> {
  // CHECK: %[[TABLE:.*]] = nn.reshape %{{.*}} : tensor<4x6x3xf32> -> tensor<4x18xf32>
  // CHECK: nn.embedding %[[TABLE]], %{{.*}} : (tensor<4x18xf32>, tensor<8xi64>) -> tensor<8x18xf32>
  %0 = onnx.node "GatherND"(%w, %i) : (tensor<4x6x3xf32>, tensor<8x1xi64>) -> tensor<8x6x3xf32>
  return %0 : tensor<8x6x3xf32>
}

// -----

// CHECK-LABEL: func.func @gathers
func.func @gathers(%x: tensor<2x3x4xf32>, %b: tensor<2x3xi1>, %i: tensor<5xi64>, %e: tensor<2x1x4xi64>, %n: tensor<2x5x2xi64>) -> (tensor<2x5x4xf32>, tensor<2x1x4xf32>, tensor<2x5xf32>, tensor<5x3xi1>) {
  // CHECK: nn.gather %{{.*}} {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: -1, 0, -1>, indexed_axes = array<i64: 1>}
  %0 = onnx.node "Gather"(%x, %i) {axis = -2 : i64} : (tensor<2x3x4xf32>, tensor<5xi64>) -> tensor<2x5x4xf32>
  // CHECK: nn.gather %{{.*}} {data_axes = array<i64: 0, -1, 2>, index_axes = array<i64: 0, 1, 2>, indexed_axes = array<i64: 1>}
  %1 = onnx.node "GatherElements"(%x, %e) {axis = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x1x4xi64>) -> tensor<2x1x4xf32>
  // CHECK: nn.gather %{{.*}} {data_axes = array<i64: 0, -1>, index_axes = array<i64: 0, 1>, indexed_axes = array<i64: 1, 2>}
  %2 = onnx.node "GatherND"(%x, %n) {batch_dims = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x5x2xi64>) -> tensor<2x5xf32>
  // Other elements than floats have no table.
  // CHECK: nn.gather %{{.*}} : (tensor<2x3xi1>, tensor<5x1xi64>) -> tensor<5x3xi1>
  %3 = onnx.node "Gather"(%b, %i) : (tensor<2x3xi1>, tensor<5xi64>) -> tensor<5x3xi1>
  return %0, %1, %2, %3 : tensor<2x5x4xf32>, tensor<2x1x4xf32>, tensor<2x5xf32>, tensor<5x3xi1>
}

// -----

// CHECK-LABEL: func.func @scatters
func.func @scatters(%x: tensor<3x4xf32>, %i: tensor<2x4xi64>, %n: tensor<5x1xi64>, %u: tensor<2x4xf32>, %v: tensor<5x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  // CHECK: nn.scatter max %{{.*}}, %{{.*}}, %{{.*}} {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, 1>, indexed_axes = array<i64: 0>} : (tensor<2x4x1xi64>, tensor<2x4xf32>, tensor<3x4xf32>)
  %0 = onnx.node "ScatterElements"(%x, %i, %u) {axis = 0 : i64, reduction = "max"} : (tensor<3x4xf32>, tensor<2x4xi64>, tensor<2x4xf32>) -> tensor<3x4xf32>
  // CHECK: nn.scatter none %{{.*}}, %{{.*}}, %{{.*}} {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>}
  %1 = onnx.node "ScatterND"(%x, %n, %v) : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> tensor<3x4xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @ranks
func.func @ranks(%x: tensor<2x6xf32>, %i: tensor<2xi64>) -> (tensor<2x3xi64>, tensor<2xi64>, tensor<2x5xf32>) {
  %k = onnx.node "Constant"() {value_ints = array<i64: 3>} : () -> tensor<1xi64>
  // CHECK: nn.top_k %{{.*}} {axis = 1 : i64, k = 3 : i64}
  %0:2 = onnx.node "TopK"(%x, %k) : (tensor<2x6xf32>, tensor<1xi64>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  // The smallest is the largest of what is negated, so that a NaN wins, too.
  // CHECK: %[[NEGATED:.*]] = nn.neg
  // CHECK: nn.top_k %[[NEGATED]] {axis = 1 : i64, k = 1 : i64, last_first}
  %1 = onnx.node "ArgMin"(%x) {axis = -1 : i64, keepdims = 0 : i64, select_last_index = 1 : i64} : (tensor<2x6xf32>) -> tensor<2xi64>
  %d = onnx.node "Constant"() {value_int = 5 : i64} : () -> tensor<i64>
  %v = onnx.node "Constant"() {value_floats = array<f32: 0.0, 2.0>} : () -> tensor<2xf32>
  // CHECK: nn.iota {axis = 1 : i64} : () -> tensor<1x5xi64>
  // CHECK: nn.compare eq
  // CHECK: nn.select %{{.*}} -> tensor<2x5xf32>
  %2 = onnx.node "OneHot"(%i, %d, %v) : (tensor<2xi64>, tensor<i64>, tensor<2xf32>) -> tensor<2x5xf32>
  return %0#1, %1, %2 : tensor<2x3xi64>, tensor<2xi64>, tensor<2x5xf32>
}

// -----

// Patches of an image are a reshape of it, rows of a product.
// CHECK-LABEL: func.func @patches
func.func @patches(%x: tensor<2x3x8x8xf32>, %w: tensor<5x3x4x4xf32>, %b: tensor<5xf32>) -> tensor<2x5x2x2xf32> {
  // CHECK-NOT: nn.windows
  // CHECK: nn.reshape %{{.*}} : tensor<2x3x8x8xf32> -> tensor<2x3x2x4x2x4xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<8x48xf32>, tensor<5x48xf32>) -> tensor<8x5xf32>
  // CHECK: nn.add %{{.*}} : (tensor<2x5x2x2xf32>, tensor<5x1x1xf32>) -> tensor<2x5x2x2xf32>
  %0 = onnx.node "Conv"(%x, %w, %b) {strides = array<i64: 4, 4>, kernel_shape = array<i64: 4, 4>} : (tensor<2x3x8x8xf32>, tensor<5x3x4x4xf32>, tensor<5xf32>) -> tensor<2x5x2x2xf32>
  return %0 : tensor<2x5x2x2xf32>
}

// -----

// CHECK-LABEL: func.func @convolutions
func.func @convolutions(%x: tensor<2x4x7xf32>, %w: tensor<6x2x3xf32>, %t: tensor<4x3x3xf32>) -> (tensor<2x6x4xf32>, tensor<2x3x14xf32>) {
  // CHECK: nn.concat %{{.*}} -> tensor<2x4x9xf32>
  // CHECK: nn.windows %{{.*}} {axes = array<i64: 2>, dilations = array<i64: 1>, sizes = array<i64: 3>, strides = array<i64: 2>} : (tensor<2x4x9xf32>) -> tensor<2x4x4x3xf32>
  // CHECK: nn.transpose %{{.*}} {permutation = array<i64: 1, 2, 4, 0, 3>}
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<2x3x6xf32>, tensor<2x6x8xf32>) -> tensor<2x3x8xf32>
  %0 = onnx.node "Conv"(%x, %w) {group = 2 : i64, strides = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<2x4x7xf32>, tensor<6x2x3xf32>) -> tensor<2x6x4xf32>
  // CHECK: nn.matmul %{{.*}} : (tensor<14x4xf32>, tensor<4x9xf32>) -> tensor<14x9xf32>
  // CHECK: nn.overlap_add %{{.*}} : tensor<2x3x7x3xf32> -> tensor<2x3x15xf32>
  %1 = onnx.node "ConvTranspose"(%x, %t) {strides = array<i64: 2>, pads = array<i64: 1, 1>, output_padding = array<i64: 1>} : (tensor<2x4x7xf32>, tensor<4x3x3xf32>) -> tensor<2x3x14xf32>
  return %0, %1 : tensor<2x6x4xf32>, tensor<2x3x14xf32>
}

// -----

// A kernel for each channel is an op of its own; of two for each it is not.
// CHECK-LABEL: func.func @depthwise
func.func @depthwise(%x: tensor<2x4x7xf32>, %w: tensor<4x1x3xf32>, %b: tensor<4xf32>, %two: tensor<8x1x3xf32>) -> (tensor<2x4x4xf32>, tensor<2x8x5xf32>) {
  // CHECK: %[[W:.*]] = nn.reshape %{{.*}} : tensor<4x1x3xf32> -> tensor<4x3xf32>
  // CHECK: %[[C:.*]] = nn.depthwise_conv %{{.*}}, %[[W]] {dilations = array<i64: 1>, high = array<i64: 2>, low = array<i64: 1>, strides = array<i64: 2>} : (tensor<2x4x7xf32>, tensor<4x3xf32>) -> tensor<2x4x4xf32>
  // CHECK: nn.add %[[C]], %{{.*}} : (tensor<2x4x4xf32>, tensor<4x1xf32>) -> tensor<2x4x4xf32>
  %0 = onnx.node "Conv"(%x, %w, %b) {group = 4 : i64, strides = array<i64: 2>, pads = array<i64: 1, 2>} : (tensor<2x4x7xf32>, tensor<4x1x3xf32>, tensor<4xf32>) -> tensor<2x4x4xf32>
  // CHECK-NOT: depthwise
  // CHECK: nn.windows
  %1 = onnx.node "Conv"(%x, %two) {group = 4 : i64} : (tensor<2x4x7xf32>, tensor<8x1x3xf32>) -> tensor<2x8x5xf32>
  return %0, %1 : tensor<2x4x4xf32>, tensor<2x8x5xf32>
}

// -----

// One element's windows are columns as they lie, or rows where a transpose has
// put the channels last.
// CHECK-LABEL: func.func @pointwise
// CHECK-NOT: nn.windows
func.func @pointwise(%x: tensor<2x4x7xf32>, %t: tensor<2x7x4xf32>, %w: tensor<6x4x1xf32>) -> (tensor<2x6x7xf32>, tensor<2x6x7xf32>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<4x14xf32>) -> tensor<6x14xf32>
  %0 = onnx.node "Conv"(%x, %w) : (tensor<2x4x7xf32>, tensor<6x4x1xf32>) -> tensor<2x6x7xf32>
  %1 = onnx.node "Transpose"(%t) {perm = array<i64: 0, 2, 1>} : (tensor<2x7x4xf32>) -> tensor<2x4x7xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<14x4xf32>, tensor<6x4xf32>) -> tensor<14x6xf32>
  %2 = onnx.node "Conv"(%1, %w) : (tensor<2x4x7xf32>, tensor<6x4x1xf32>) -> tensor<2x6x7xf32>
  return %0, %2 : tensor<2x6x7xf32>, tensor<2x6x7xf32>
}

// -----

// CHECK-LABEL: func.func @pools
func.func @pools(%x: tensor<1x2x5x5xf32>) -> (tensor<1x2x3x3xf32>, tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>) {
  // CHECK: nn.windows %{{.*}} : (tensor<1x2x7x7xf32>) -> tensor<1x2x3x3x3x3xf32>
  // CHECK: nn.reduce_max %{{.*}} {axes = array<i64: 4, 5>, nn.first} : (tensor<1x2x3x3x3x3xf32>) -> tensor<1x2x3x3xf32>
  %0 = onnx.node "MaxPool"(%x) {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x2x5x5xf32>) -> tensor<1x2x3x3xf32>
  // CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 4, 5>} : (tensor<1x2x2x2x3x3xf32>) -> tensor<1x2x2x2xf32>
  // CHECK: nn.constant dense<0.333333343> : tensor<2x1xf32>
  %1 = onnx.node "AveragePool"(%x) {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>} : (tensor<1x2x5x5xf32>) -> tensor<1x2x2x2xf32>
  // CHECK: nn.reduce_mean %{{.*}} {axes = array<i64: 2, 3>, keepdims}
  %2 = onnx.node "GlobalAveragePool"(%x) : (tensor<1x2x5x5xf32>) -> tensor<1x2x1x1xf32>
  return %0, %1, %2 : tensor<1x2x3x3xf32>, tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>
}

// -----

// An odd cut for a wanted size takes more from the start, but for SAME_UPPER.
// CHECK-LABEL: func.func @transposed_to_size
// CHECK: nn.slice {{.*}}offsets = array<i64: 0, 0, 1>, sizes = array<i64: 1, 1, 6>
// CHECK: nn.slice {{.*}}offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 1, 6>
func.func @transposed_to_size(%x: tensor<1x1x3xf32>, %w: tensor<1x1x3xf32>) -> (tensor<1x1x6xf32>, tensor<1x1x6xf32>) {
  %0 = onnx.node "ConvTranspose"(%x, %w) {strides = array<i64: 2>, output_shape = array<i64: 6>} : (tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> tensor<1x1x6xf32>
  %1 = onnx.node "ConvTranspose"(%x, %w) {strides = array<i64: 2>, auto_pad = "SAME_UPPER"} : (tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> tensor<1x1x6xf32>
  return %0, %1 : tensor<1x1x6xf32>, tensor<1x1x6xf32>
}

// -----

// Elements go back to where a pooling of 2 found them; the output_shape adds a
// row and a column.
// CHECK-LABEL: func.func @unpools
func.func @unpools(%x: tensor<1x1x2x2xf32>, %i: tensor<1x1x2x2xi64>) -> tensor<1x1x5x5xf32> {
  // CHECK: %[[FLAT:.*]] = nn.scatter none %{{.*}}, %{{.*}} {data_axes = array<i64: -1>, index_axes = array<i64: 0>, indexed_axes = array<i64: 0>} : (tensor<4x1xi64>, tensor<4xf32>) -> tensor<16xf32>
  // CHECK: %[[IMAGE:.*]] = nn.reshape %[[FLAT]] : tensor<16xf32> -> tensor<1x1x4x4xf32>
  // CHECK: nn.pad %[[IMAGE]]
  %shape = onnx.node "Constant"() {value = dense<[1, 1, 5, 5]> : tensor<4xi64>} : () -> tensor<4xi64>
  %0 = onnx.node "MaxUnpool"(%x, %i, %shape) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>, tensor<4xi64>) -> tensor<1x1x5x5xf32>
  return %0 : tensor<1x1x5x5xf32>
}

// -----

// Known indices of rows in turn are a slice, unless one of them is the row that
// padding_idx gives no gradient.
// CHECK-LABEL: func.func @padding(
// CHECK-NOT: nn.slice
// CHECK: %[[ROWS:.*]] = nn.embedding
// CHECK: %[[STILL:.*]] = nn.stop_gradient
// CHECK: nn.select %{{.*}}, %[[STILL]]
// CHECK: nn.slice %arg0 {offsets = array<i64: 1, 0>, sizes = array<i64: 2, 4>}
func.func @padding(%table: tensor<5x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %first = onnx.node "Constant"() {value = dense<[0, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %next = onnx.node "Constant"() {value = dense<[1, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
  %0 = onnx.node "Gather"(%table, %first) {padding_idx = 0 : i64} : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = onnx.node "Gather"(%table, %next) {padding_idx = 0 : i64} : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// No elements put into a tensor leave it as it is; joined ones stay none.
// CHECK-LABEL: func.func @nothing(
// CHECK-SAME: %[[X:.*]]: tensor<3x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @nothing(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %i = onnx.node "Constant"() {value = dense<> : tensor<0x1xi64>} : () -> tensor<0x1xi64>
  %two = onnx.node "Concat"(%i, %i) {axis = 0 : i64} : (tensor<0x1xi64>, tensor<0x1xi64>) -> tensor<?x1xi64>
  %u = onnx.node "Constant"() {value = dense<> : tensor<0x4xf32>} : () -> tensor<0x4xf32>
  %0 = onnx.node "ScatterND"(%x, %two, %u) : (tensor<3x4xf32>, tensor<?x1xi64>, tensor<0x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Known windows that slide are as many parts of the axis as a window has
// elements, or as there are windows, where these are fewer.
// CHECK-LABEL: func.func @slides
// CHECK-NOT: nn.gather
func.func @slides(%x: tensor<2x6x4xf32>) -> (tensor<2x2x5x4xf32>, tensor<2x3x2x4xf32>, tensor<2x2x3x4xf32>) {
  %unit = onnx.node "Constant"() {value = dense<[[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]> : tensor<2x5xi64>} : () -> tensor<2x5xi64>
  // CHECK: %[[FIRST:.*]] = nn.slice %arg0 {{.*}}offsets = array<i64: 0, 0, 0>{{.*}} -> tensor<2x5x4xf32>
  // CHECK: %[[ROW:.*]] = nn.reshape %[[FIRST]] : tensor<2x5x4xf32> -> tensor<2x1x5x4xf32>
  // CHECK: nn.slice %arg0 {{.*}}offsets = array<i64: 0, 1, 0>{{.*}} -> tensor<2x5x4xf32>
  // CHECK: nn.concat %[[ROW]], %{{.*}} -> tensor<2x2x5x4xf32>
  %0 = onnx.node "Gather"(%x, %unit) {axis = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x5xi64>) -> tensor<2x2x5x4xf32>
  %columns = onnx.node "Constant"() {value = dense<[[0, 3], [1, 4], [2, -1]]> : tensor<3x2xi64>} : () -> tensor<3x2xi64>
  // CHECK: nn.concat {{.*}} : (tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %1 = onnx.node "Gather"(%x, %columns) {axis = 1 : i64} : (tensor<2x6x4xf32>, tensor<3x2xi64>) -> tensor<2x3x2x4xf32>
  %strided = onnx.node "Constant"() {value = dense<[[0, 2, 4], [1, 3, 5]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
  // CHECK: nn.concat {{.*}} : (tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>) -> tensor<2x2x3x4xf32>
  %2 = onnx.node "Gather"(%x, %strided) {axis = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x3xi64>) -> tensor<2x2x3x4xf32>
  return %0, %1, %2 : tensor<2x2x5x4xf32>, tensor<2x3x2x4xf32>, tensor<2x2x3x4xf32>
}
