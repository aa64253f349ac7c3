// Ops of which all inputs are known, family by family.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @products
// A row by a matrix; 2·A·B + C; a diagonal; the determinant.
// CHECK-SAME: nn.value = dense<[1.400000e+01, 3.200000e+01]> : tensor<2xf64>
// CHECK-SAME: nn.value = dense<{{\[}}[1.500000e+01, 3.400000e+01], [2.700000e+01, 6.200000e+01]]> : tensor<2x2xf64>
// CHECK-SAME: nn.value = dense<5.000000e+00> : tensor<f64>
// CHECK-SAME: nn.value = dense<-2.000000e+00> : tensor<f64>
module attributes {onnx.evaluate} {
  func.func @products(%v: tensor<3xf64> {onnx.name = "v", onnx.value = dense<[1.0, 2.0, 3.0]> : tensor<3xf64>},
                      %m: tensor<3x2xf64> {onnx.name = "m", onnx.value = dense<[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]> : tensor<3x2xf64>},
                      %a: tensor<2x2xf64> {onnx.name = "a", onnx.value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>},
                      %c: tensor<2xf64> {onnx.name = "c", onnx.value = dense<[5.0, 12.0]> : tensor<2xf64>})
      -> (tensor<2xf64>, tensor<2x2xf64>, tensor<f64>, tensor<f64>) {
    %y = onnx.node "MatMul"(%v, %m) : (tensor<3xf64>, tensor<3x2xf64>) -> tensor<2xf64>
    %g = onnx.node "Gemm"(%a, %a, %c) {alpha = 2.0 : f32, transB = 1 : i64} : (tensor<2x2xf64>, tensor<2x2xf64>, tensor<2xf64>) -> tensor<2x2xf64>
    %t = onnx.node "Einsum"(%a) {equation = "ii->"} : (tensor<2x2xf64>) -> tensor<f64>
    %d = onnx.node "Det"(%a) : (tensor<2x2xf64>) -> tensor<f64>
    return %y, %g, %t, %d : tensor<2xf64>, tensor<2x2xf64>, tensor<f64>, tensor<f64>
  }
}

// -----

// Windows: dilated, padded, and the greatest element with where it was.
// CHECK-LABEL: func.func @windows
// CHECK-SAME: nn.value = dense<{{\[\[}}[2.000000e+00, 4.000000e+00, 6.000000e+00, 3.000000e+00]]]> : tensor<1x1x4xf64>
// CHECK-SAME: nn.value = dense<{{\[\[}}[1.500000e+00, 3.500000e+00]]]> : tensor<1x1x2xf64>
// CHECK-SAME: nn.value = dense<{{\[\[}}[1, 3]]]> : tensor<1x1x2xi64>
// CHECK-SAME: nn.value = dense<{{\[\[}}[1.000000e+00, 2.000000e+00, 4.000000e+00, 6.000000e+00, 3.000000e+00, 4.000000e+00]]]> : tensor<1x1x6xf64>
module attributes {onnx.evaluate} {
  func.func @windows(%x: tensor<1x1x4xf64> {onnx.name = "x", onnx.value = dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf64>},
                     %w: tensor<1x1x2xf64> {onnx.name = "w", onnx.value = dense<1.0> : tensor<1x1x2xf64>})
      -> (tensor<1x1x4xf64>, tensor<1x1x2xf64>, tensor<1x1x2xi64>, tensor<1x1x6xf64>) {
    %y = onnx.node "Conv"(%x, %w) {dilations = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<1x1x4xf64>, tensor<1x1x2xf64>) -> tensor<1x1x4xf64>
    %a = onnx.node "AveragePool"(%x) {kernel_shape = array<i64: 2>, strides = array<i64: 2>} : (tensor<1x1x4xf64>) -> tensor<1x1x2xf64>
    %m:2 = onnx.node "MaxPool"(%x) {kernel_shape = array<i64: 2>, strides = array<i64: 2>} : (tensor<1x1x4xf64>) -> (tensor<1x1x2xf64>, tensor<1x1x2xi64>)
    %t = onnx.node "ConvTranspose"(%x, %w) {dilations = array<i64: 2>} : (tensor<1x1x4xf64>, tensor<1x1x2xf64>) -> tensor<1x1x6xf64>
    return %y, %a, %m#1, %t : tensor<1x1x4xf64>, tensor<1x1x2xf64>, tensor<1x1x2xi64>, tensor<1x1x6xf64>
  }
}

// -----

// CHECK-LABEL: func.func @scatters
// CHECK-SAME: nn.value = dense<[1, 22, 3]> : tensor<3xi64>
// CHECK-SAME: nn.value = dense<{{\[}}[0, 0], [7, 8]]> : tensor<2x2xi64>
// CHECK-SAME: nn.value = dense<{{\[}}[5, 0, 0], [0, 0, 5]]> : tensor<2x3xi64>
module attributes {onnx.evaluate} {
  func.func @scatters(%x: tensor<3xi64> {onnx.name = "x", onnx.value = dense<[1, 2, 3]> : tensor<3xi64>},
                      %i: tensor<2xi64> {onnx.name = "i", onnx.value = dense<[1, -2]> : tensor<2xi64>},
                      %u: tensor<2xi64> {onnx.name = "u", onnx.value = dense<10> : tensor<2xi64>},
                      %z: tensor<2x2xi64> {onnx.name = "z", onnx.value = dense<0> : tensor<2x2xi64>},
                      %at: tensor<1x1xi64> {onnx.name = "at", onnx.value = dense<1> : tensor<1x1xi64>},
                      %row: tensor<1x2xi64> {onnx.name = "row", onnx.value = dense<[[7, 8]]> : tensor<1x2xi64>},
                      %hot: tensor<2xi64> {onnx.name = "hot", onnx.value = dense<[0, -1]> : tensor<2xi64>},
                      %depth: tensor<i64> {onnx.name = "depth", onnx.value = dense<3> : tensor<i64>},
                      %values: tensor<2xi64> {onnx.name = "values", onnx.value = dense<[0, 5]> : tensor<2xi64>})
      -> (tensor<3xi64>, tensor<2x2xi64>, tensor<2x3xi64>) {
    %e = onnx.node "ScatterElements"(%x, %i, %u) {reduction = "add"} : (tensor<3xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3xi64>
    %n = onnx.node "ScatterND"(%z, %at, %row) : (tensor<2x2xi64>, tensor<1x1xi64>, tensor<1x2xi64>) -> tensor<2x2xi64>
    %h = onnx.node "OneHot"(%hot, %depth, %values) : (tensor<2xi64>, tensor<i64>, tensor<2xi64>) -> tensor<2x3xi64>
    return %e, %n, %h : tensor<3xi64>, tensor<2x2xi64>, tensor<2x3xi64>
  }
}

// -----

// The first of equal elements comes first.
// CHECK-LABEL: func.func @selections
// CHECK-SAME: nn.value = dense<[1, 3]> : tensor<2xi64>
// CHECK-SAME: nn.value = dense<[1, 2, 4]> : tensor<3xi64>
// CHECK-SAME: nn.value = dense<[1, 0, 2, 0]> : tensor<4xi64>
// CHECK-SAME: nn.value = dense<{{\[}}[0, 1, 2, 3]]> : tensor<1x4xi64>
// CHECK-SAME: nn.value = dense<3> : tensor<1xi64>
module attributes {onnx.evaluate} {
  func.func @selections(%x: tensor<4xi64> {onnx.name = "x", onnx.value = dense<[2, 1, 4, 1]> : tensor<4xi64>},
                        %k: tensor<1xi64> {onnx.name = "k", onnx.value = dense<2> : tensor<1xi64>})
      -> (tensor<2xi64>, tensor<?xi64>, tensor<?xi64>, tensor<1x?xi64>, tensor<1xi64>) {
    %minus = onnx.node "Neg"(%x) : (tensor<4xi64>) -> tensor<4xi64>
    %t:2 = onnx.node "TopK"(%minus, %k) : (tensor<4xi64>, tensor<1xi64>) -> (tensor<2xi64>, tensor<2xi64>)
    %u:4 = onnx.node "Unique"(%x) : (tensor<4xi64>) -> (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>, tensor<?xi64>)
    %nz = onnx.node "NonZero"(%x) : (tensor<4xi64>) -> tensor<1x?xi64>
    %last = onnx.node "ArgMin"(%x) {select_last_index = 1 : i64} : (tensor<4xi64>) -> tensor<1xi64>
    return %t#1, %u#0, %u#2, %nz, %last : tensor<2xi64>, tensor<?xi64>, tensor<?xi64>, tensor<1x?xi64>, tensor<1xi64>
  }
}

// -----

// CHECK-LABEL: func.func @paddings
// CHECK-SAME: nn.value = dense<[3, 2, 1, 2, 3, 2]> : tensor<6xi64>
// CHECK-SAME: nn.value = dense<[2, 3, 1, 2, 3, 1]> : tensor<6xi64>
// CHECK-SAME: nn.value = dense<[2, 3]> : tensor<2xi64>
// CHECK-SAME: nn.value = dense<3> : tensor<1xi64>
module attributes {onnx.evaluate} {
  func.func @paddings(%x: tensor<3xi64> {onnx.name = "x", onnx.value = dense<[1, 2, 3]> : tensor<3xi64>},
                      %p: tensor<2xi64> {onnx.name = "p", onnx.value = dense<[2, 1]> : tensor<2xi64>},
                      %m: tensor<2xi64> {onnx.name = "m", onnx.value = dense<[-1, 0]> : tensor<2xi64>})
      -> (tensor<6xi64>, tensor<6xi64>, tensor<2xi64>, tensor<1xi64>) {
    %r = onnx.node "Pad"(%x, %p) {mode = "reflect"} : (tensor<3xi64>, tensor<2xi64>) -> tensor<6xi64>
    %w = onnx.node "Pad"(%x, %p) {mode = "wrap"} : (tensor<3xi64>, tensor<2xi64>) -> tensor<6xi64>
    %c = onnx.node "Pad"(%x, %m) : (tensor<3xi64>, tensor<2xi64>) -> tensor<2xi64>
    %s:2 = onnx.node "Split"(%x) {num_outputs = 2 : i64} : (tensor<3xi64>) -> (tensor<2xi64>, tensor<1xi64>)
    return %r, %w, %c, %s#1 : tensor<6xi64>, tensor<6xi64>, tensor<2xi64>, tensor<1xi64>
  }
}

// -----

// Between pixels, and a line of which one is outside.
// CHECK-LABEL: func.func @images
// CHECK-SAME: nn.value = dense<{{\[\[}}[1.000000e+00, 1.500000e+00, 2.500000e+00, 3.000000e+00]]]> : tensor<1x1x4xf32>
// CHECK-SAME: nn.value = dense<{{\[\[\[}}[2.500000e+00, 0.000000e+00]]]]> : tensor<1x1x1x2xf32>
// CHECK-SAME: nn.value = dense<{{\[\[}}[-1.000000e+00], [1.000000e+00]]]> : tensor<1x2x1xf64>
module attributes {onnx.evaluate} {
  func.func @images(%x: tensor<1x1x2xf32> {onnx.name = "x", onnx.value = dense<[[[1.0, 3.0]]]> : tensor<1x1x2xf32>},
                    %sizes: tensor<3xi64> {onnx.name = "sizes", onnx.value = dense<[1, 1, 4]> : tensor<3xi64>},
                    %i: tensor<1x1x2x2xf32> {onnx.name = "i", onnx.value = dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>},
                    %g: tensor<1x1x2x2xf32> {onnx.name = "g", onnx.value = dense<[[[[0.0, 0.0], [3.0, 3.0]]]]> : tensor<1x1x2x2xf32>},
                    %n: tensor<1x2x1xf64> {onnx.name = "n", onnx.value = dense<[[[-2.0], [0.5]]]> : tensor<1x2x1xf64>})
      -> (tensor<1x1x4xf32>, tensor<1x1x1x2xf32>, tensor<1x2x1xf64>) {
    %none = onnx.none
    %r = onnx.node "Resize"(%x, %none, %none, %sizes) {mode = "linear"} : (tensor<1x1x2xf32>, none, none, tensor<3xi64>) -> tensor<1x1x4xf32>
    %s = onnx.node "GridSample"(%i, %g) : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x1x2xf32>
    %l = onnx.node "LpNormalization"(%n) {p = 1 : i64} : (tensor<1x2x1xf64>) -> tensor<1x2x1xf64>
    return %r, %s, %l : tensor<1x1x4xf32>, tensor<1x1x1x2xf32>, tensor<1x2x1xf64>
  }
}

// -----

// With all weights zero but one a step of an RNN is tanh of its input.
// CHECK-LABEL: func.func @recurrent
// CHECK-SAME: nn.value = dense<{{\[\[\[}}[0.000000e+00]]], {{\[\[}}[0.76159415595576485]]]]> : tensor<2x1x1x1xf64>
module attributes {onnx.evaluate} {
  func.func @recurrent(%x: tensor<2x1x1xf64> {onnx.name = "x", onnx.value = dense<[[[0.0]], [[1.0]]]> : tensor<2x1x1xf64>},
                       %w: tensor<1x1x1xf64> {onnx.name = "w", onnx.value = dense<1.0> : tensor<1x1x1xf64>},
                       %r: tensor<1x1x1xf64> {onnx.name = "r", onnx.value = dense<0.0> : tensor<1x1x1xf64>})
      -> (tensor<2x1x1x1xf64>) {
    %y = onnx.node "RNN"(%x, %w, %r) {hidden_size = 1 : i64} : (tensor<2x1x1xf64>, tensor<1x1x1xf64>, tensor<1x1x1xf64>) -> tensor<2x1x1x1xf64>
    return %y : tensor<2x1x1x1xf64>
  }
}
