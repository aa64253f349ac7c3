// What does not depend on data is computed, whatever the ops.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @shapes
// A batch read from the shape of an input, as exporters do for every view.
func.func @shapes(%x: tensor<2x6x4xf32> {onnx.name = "x"}) -> tensor<2x6x2x2xf32> {
  %shape = onnx.node "Shape"(%x) {end = 1 : i64, start = 0 : i64} : (tensor<2x6x4xf32>) -> tensor<1xi64>
  %batch = onnx.node "Squeeze"(%shape) : (tensor<1xi64>) -> tensor<i64>
  %minus = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  %b = onnx.node "Reshape"(%batch, %minus) : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>
  %six = onnx.node "Constant"() {value = dense<6> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = onnx.node "Constant"() {value_ints = array<i64: 2>} : () -> tensor<1xi64>
  %to = onnx.node "Concat"(%b, %six, %minus, %two) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xi64>
  // CHECK-NEXT: %[[Y:.*]] = nn.reshape %{{.*}} : tensor<2x6x4xf32> -> tensor<2x6x2x2xf32>
  // CHECK-NEXT: return %[[Y]]
  %y = onnx.node "Reshape"(%x, %to) {allowzero = 1 : i64} : (tensor<2x6x4xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  %z = onnx.node "Identity"(%y) : (tensor<?x?x?x?xf32>) -> tensor<2x6x2x2xf32>
  return %z : tensor<2x6x2x2xf32>
}

// -----

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic() -> (tensor<4xi64>, tensor<4xf32>, tensor<2x3xi64>) {
  %start = onnx.node "Constant"() {value_float = 0.0 : f32} : () -> tensor<f32>
  %four = onnx.node "Constant"() {value_int = 4 : i64} : () -> tensor<i64>
  %one = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
  %zero = onnx.node "CastLike"(%start, %four) : (tensor<f32>, tensor<i64>) -> tensor<i64>
  %range = onnx.node "Range"(%zero, %four, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  // (0 1 2 3) -> exclusive prefix sums of (0 2 4 6)
  %twice = onnx.node "Add"(%range, %range) : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  // CHECK-DAG: nn.constant dense<[0, 0, 2, 6]> : tensor<4xi64>
  %sums = onnx.node "CumSum"(%twice, %zero) {exclusive = 1 : i64} : (tensor<?xi64>, tensor<i64>) -> tensor<4xi64>
  // CHECK-DAG: nn.constant dense<[1.000000e+00, 5.000000e-01, 2.500000e-01, 1.250000e-01]> : tensor<4xf32>
  %half = onnx.node "Constant"() {value_float = 0.5 : f32} : () -> tensor<f32>
  %powers = onnx.node "Pow"(%half, %range) : (tensor<f32>, tensor<?xi64>) -> tensor<4xf32>
  // CHECK-DAG: nn.constant dense<{{\[}}[9, 8, 7], [6, 5, 4]]> : tensor<2x3xi64>
  %table = onnx.node "Constant"() {value = dense<[[9, 6], [8, 5], [7, 4]]> : tensor<3x2xi64>} : () -> tensor<3x2xi64>
  %turned = onnx.node "Transpose"(%table) {perm = array<i64: 1, 0>} : (tensor<3x2xi64>) -> tensor<2x3xi64>
  return %sums, %powers, %turned : tensor<4xi64>, tensor<4xf32>, tensor<2x3xi64>
}

// -----

// CHECK-LABEL: func.func @slices
func.func @slices() -> (tensor<3xi64>, tensor<2xi64>, tensor<2x2xi64>, tensor<2xi64>) {
  %data = onnx.node "Constant"() {value_ints = array<i64: 10, 11, 12, 13, 14>} : () -> tensor<5xi64>
  %m1 = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  %m9 = onnx.node "Constant"() {value_ints = array<i64: -9>} : () -> tensor<1xi64>
  %m2 = onnx.node "Constant"() {value_ints = array<i64: -2>} : () -> tensor<1xi64>
  %c0 = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
  %big = onnx.node "Constant"() {value_ints = array<i64: 9223372036854775807>} : () -> tensor<1xi64>
  // Backwards by two, from the last to beyond the first.
  // CHECK-DAG: nn.constant dense<[14, 12, 10]> : tensor<3xi64>
  %a = onnx.node "Slice"(%data, %m1, %m9, %c0, %m2) : (tensor<5xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  // CHECK-DAG: nn.constant dense<[13, 14]> : tensor<2xi64>
  %b = onnx.node "Slice"(%data, %m2, %big) : (tensor<5xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  // CHECK-DAG: nn.constant dense<{{\[}}[11, 14], [14, 10]]> : tensor<2x2xi64>
  %index = onnx.node "Constant"() {value = dense<[[1, -1], [4, 0]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
  %c = onnx.node "Gather"(%data, %index) {axis = 0 : i64} : (tensor<5xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
  // CHECK-DAG: nn.constant dense<[8, 3]> : tensor<2xi64>
  %grid = onnx.node "Constant"() {value = dense<[[1, 2, 3], [6, 7, 8]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
  %points = onnx.node "Constant"() {value = dense<[[1, 2], [0, -1]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
  %d = onnx.node "GatherND"(%grid, %points) : (tensor<2x3xi64>, tensor<2x2xi64>) -> tensor<2xi64>
  return %a, %b, %c, %d : tensor<3xi64>, tensor<2xi64>, tensor<2x2xi64>, tensor<2xi64>
}

// -----

// position_ids are 0…S-1 and attention_mask is ones: what depends on them is known.
// CHECK-LABEL: func.func @inputs
func.func @inputs(%mask: tensor<2x3xi64> {onnx.name = "attention_mask"}, %pos: tensor<2x3xi64> {onnx.name = "position_ids"}, %x: tensor<2x3xi64> {onnx.name = "x"}) -> tensor<2x3xi64> {
  // CHECK-DAG: nn.constant dense<{{\[}}[1, 2, 3]]> : tensor<1x3xi64>
  // CHECK: nn.add
  %sum = onnx.node "Add"(%mask, %pos) : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  %y = onnx.node "Add"(%sum, %x) : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  return %y : tensor<2x3xi64>
}

// -----

// A mask that chooses tokens is data.
// CHECK-LABEL: func.func @chosen(%{{.*}}: tensor<2x3xi64> {nn.name = "global_attention_mask"})
func.func @chosen(%mask: tensor<2x3xi64> {onnx.name = "global_attention_mask"}) -> tensor<2x3xi64> {
  // CHECK: nn.add
  %y = onnx.node "Add"(%mask, %mask) : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  return %y : tensor<2x3xi64>
}

// -----

// An input that is known is no argument; an output that is known carries its
// value, of whatever type, and what is returned for it means nothing.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%{{.*}}: tensor<2xf32> {nn.name = "x"})
// CHECK-SAME: (tensor<f32> {nn.name = "y", nn.value = dense<[1.500000e+00, 2.500000e+00]> : tensor<2xf64>},
// CHECK-SAME: tensor<2xf32> {nn.name = "z"})
module attributes {onnx.evaluate} {
  func.func @forward(%k: tensor<2xf64> {onnx.name = "k", onnx.value = dense<[0.5, 1.5]> : tensor<2xf64>},
                     %x: tensor<2xf32> {onnx.name = "x"})
      -> (tensor<2xf64> {onnx.name = "y"}, tensor<2xf32> {onnx.name = "z"}) {
    %one = onnx.node "Constant"() {value = dense<1.0> : tensor<f64>} : () -> tensor<f64>
    %y = onnx.node "Add"(%k, %one) : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
    // CHECK: nn.add
    %z = onnx.node "Add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %y, %z : tensor<2xf64>, tensor<2xf32>
  }
}

// -----

// A mask of more elements than a constant of floats may have.
// CHECK-NOT: nn.parameter
// CHECK-LABEL: func.func @large_mask
module {
  onnx.initializer @mask : tensor<1x1x2112x2112xi1> = dense<true> : tensor<1x1x2112x2112xi1>
  func.func @large_mask(%x: tensor<1x1x2112x2112xf32>) -> tensor<1x1x2112x2112xf32> {
    %mask = onnx.get @mask : tensor<1x1x2112x2112xi1>
    // CHECK: nn.constant dense<true> : tensor<1x1x1x1xi1>
    %0 = onnx.node "Where"(%mask, %x, %x) : (tensor<1x1x2112x2112xi1>, tensor<1x1x2112x2112xf32>, tensor<1x1x2112x2112xf32>) -> tensor<1x1x2112x2112xf32>
    return %0 : tensor<1x1x2112x2112xf32>
  }
}
