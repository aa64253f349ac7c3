// Element types are kept: integers wrap at their width, unsigned ones compare
// and divide as such, floats are rounded after each op, and what is not a number
// wins over numbers.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @bytes
// CHECK-SAME: nn.value = dense<[44, 1]> : tensor<2xui8>
// CHECK-SAME: nn.value = dense<[56, -127]> : tensor<2xi8>
// CHECK-SAME: nn.value = dense<[100, 128]> : tensor<2xui8>
module attributes {onnx.evaluate} {
  func.func @bytes(%a: tensor<2xui8> {onnx.name = "a", onnx.value = dense<[200, 129]> : tensor<2xui8>},
                   %b: tensor<2xui8> {onnx.name = "b", onnx.value = dense<[100, 128]> : tensor<2xui8>},
                   %s: tensor<2xi8> {onnx.name = "s", onnx.value = dense<[100, 64]> : tensor<2xi8>},
                   %t: tensor<2xi8> {onnx.name = "t", onnx.value = dense<[-44, 65]> : tensor<2xi8>})
      -> (tensor<2xui8>, tensor<2xi8>, tensor<2xui8>) {
    %sum = onnx.node "Add"(%a, %b) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
    %signed = onnx.node "Add"(%s, %t) : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
    %least = onnx.node "Min"(%a, %b) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
    return %sum, %signed, %least : tensor<2xui8>, tensor<2xi8>, tensor<2xui8>
  }
}

// -----

// The largest integers of 64 bits.
// CHECK-LABEL: func.func @unsigned
// CHECK-SAME: nn.value = dense<[false, true]> : tensor<2xi1>
// CHECK-SAME: nn.value = dense<[9223372036854775807, 2]> : tensor<2xui64>
// CHECK-SAME: nn.value = dense<[1.84467441E+19, 5.000000e+00]> : tensor<2xf32>
module attributes {onnx.evaluate} {
  func.func @unsigned(%a: tensor<2xui64> {onnx.name = "a", onnx.value = dense<[18446744073709551615, 5]> : tensor<2xui64>},
                      %b: tensor<2xui64> {onnx.name = "b", onnx.value = dense<[2, 9223372036854775808]> : tensor<2xui64>},
                      %c: tensor<2xui64> {onnx.name = "c", onnx.value = dense<2> : tensor<2xui64>})
      -> (tensor<2xi1>, tensor<2xui64>, tensor<2xf32>) {
    %less = onnx.node "Less"(%a, %b) : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xi1>
    %half = onnx.node "Div"(%a, %c) : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>
    %float = onnx.node "Cast"(%a) {to = 1 : i64} : (tensor<2xui64>) -> tensor<2xf32>
    return %less, %half, %float : tensor<2xi1>, tensor<2xui64>, tensor<2xf32>
  }
}

// -----

// 2048 + 1 lies between two numbers of f16 and goes to the even one.
// CHECK-LABEL: func.func @floats
// CHECK-SAME: nn.value = dense<[2.048000e+03, 2.000000e+00]> : tensor<2xf16>
// CHECK-SAME: nn.value = dense<[0x7FC00000, 0x7FC00000, 2.000000e+00]> : tensor<3xf32>
// CHECK-SAME: nn.value = dense<[-2.000000e+00, 0.000000e+00, 2.000000e+00]> : tensor<3xf64>
module attributes {onnx.evaluate} {
  func.func @floats(%a: tensor<2xf16> {onnx.name = "a", onnx.value = dense<[2048.0, 1.0]> : tensor<2xf16>},
                    %one: tensor<f16> {onnx.name = "one", onnx.value = dense<1.0> : tensor<f16>},
                    %x: tensor<3xf32> {onnx.name = "x", onnx.value = dense<[0x7FC00000, 1.0, 2.0]> : tensor<3xf32>},
                    %y: tensor<3xf32> {onnx.name = "y", onnx.value = dense<[1.0, 0x7FC00000, 1.0]> : tensor<3xf32>},
                    %h: tensor<3xf64> {onnx.name = "h", onnx.value = dense<[-1.5, 0.5, 2.5]> : tensor<3xf64>})
      -> (tensor<2xf16>, tensor<3xf32>, tensor<3xf64>) {
    %sum = onnx.node "Add"(%a, %one) : (tensor<2xf16>, tensor<f16>) -> tensor<2xf16>
    %max = onnx.node "Max"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %round = onnx.node "Round"(%h) : (tensor<3xf64>) -> tensor<3xf64>
    return %sum, %max, %round : tensor<2xf16>, tensor<3xf32>, tensor<3xf64>
  }
}

// -----

// Remainders with the sign of the divisor, or of the dividend.
// CHECK-LABEL: func.func @remainders
// CHECK-SAME: nn.value = dense<[2, -1, 0]> : tensor<3xi32>
// CHECK-SAME: nn.value = dense<[-1, 2, 0]> : tensor<3xi32>
// CHECK-SAME: nn.value = dense<[-2, 1, -1]> : tensor<3xi32>
module attributes {onnx.evaluate} {
  func.func @remainders(%a: tensor<3xi32> {onnx.name = "a", onnx.value = dense<[-4, 5, -3]> : tensor<3xi32>},
                        %b: tensor<3xi32> {onnx.name = "b", onnx.value = dense<[3, -3, 3]> : tensor<3xi32>},
                        %one: tensor<3xi32> {onnx.name = "one", onnx.value = dense<[1, 2, 40]> : tensor<3xi32>})
      -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
    %floor = onnx.node "Mod"(%a, %b) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %trunc = onnx.node "Mod"(%a, %b) {fmod = 1 : i64} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %shift = onnx.node "BitShift"(%a, %one) {direction = "RIGHT"} : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    return %floor, %trunc, %shift : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
  }
}

// -----

// Reductions of nothing, and one over NaN.
// CHECK-LABEL: func.func @empty
// CHECK-SAME: nn.value = dense<0xFF800000> : tensor<2xf32>
// CHECK-SAME: nn.value = dense<1.000000e+00> : tensor<2xf32>
// CHECK-SAME: nn.value = dense<> : tensor<0x3xf32>
module attributes {onnx.evaluate} {
  func.func @empty(%x: tensor<2x0xf32> {onnx.name = "x", onnx.value = dense<> : tensor<2x0xf32>},
                   %axis: tensor<1xi64> {onnx.name = "axis", onnx.value = dense<1> : tensor<1xi64>},
                   %e: tensor<0x2xf32> {onnx.name = "e", onnx.value = dense<> : tensor<0x2xf32>},
                   %w: tensor<2x3xf32> {onnx.name = "w", onnx.value = dense<1.0> : tensor<2x3xf32>})
      -> (tensor<2xf32>, tensor<2xf32>, tensor<0x3xf32>) {
    %max = onnx.node "ReduceMax"(%x, %axis) {keepdims = 0 : i64} : (tensor<2x0xf32>, tensor<1xi64>) -> tensor<2xf32>
    %product = onnx.node "ReduceProd"(%x, %axis) {keepdims = 0 : i64} : (tensor<2x0xf32>, tensor<1xi64>) -> tensor<2xf32>
    %matmul = onnx.node "MatMul"(%e, %w) : (tensor<0x2xf32>, tensor<2x3xf32>) -> tensor<0x3xf32>
    return %max, %product, %matmul : tensor<2xf32>, tensor<2xf32>, tensor<0x3xf32>
  }
}
