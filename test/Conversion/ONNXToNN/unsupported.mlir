// Everything that cannot be raised, in one error.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -verify-diagnostics -split-input-file

// expected-error @+1 {{these ONNX ops are not supported: StringConcat ×4 ('a', 'b', 'c', …); Frob ×1 ('f'); Slice ×1 ('s'): its axes are out of range, or a step is 0; TopK ×1 ('g'): its k depends on data}}
module {
  func.func @f(%x: tensor<2x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32> {
    %0 = onnx.node "StringConcat"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "a", op = "StringConcat"}>["a"])
    // An op that is known is not named for reading what a refused one makes.
    %r = onnx.node "Relu"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "r", op = "Relu"}>["r"])
    %1 = onnx.node "Frob"(%r) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "f", op = "Frob"}>["f"])
    %2 = onnx.node "StringConcat"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "b", op = "StringConcat"}>["b"])
    %3 = onnx.node "StringConcat"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "c", op = "StringConcat"}>["c"])
    %4 = onnx.node "StringConcat"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "d", op = "StringConcat"}>["d"])
    %c0 = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
    %c4 = onnx.node "Constant"() {value_ints = array<i64: 4>} : () -> tensor<1xi64>
    %c1 = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
    %5 = onnx.node "Slice"(%x, %c0, %c4, %c1, %c0) : (tensor<2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32> loc(fused<{node = "s", op = "Slice"}>["s"])
    %6:2 = onnx.node "TopK"(%x, %i) {axis = 1 : i64} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<2x2xf32>, tensor<2x2xi64>) loc(fused<{node = "g", op = "TopK"}>["g"])
    return %1 : tensor<2x4xf32>
  }
}

// -----

// expected-error @+1 {{these ONNX ops are not supported: Relu ×1 ('r')}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    // An op of another domain is another op.
    %0 = onnx.node "Relu" in "com.example"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "r", op = "Relu"}>["r"])
    return %0 : tensor<2x4xf32>
  }
}

// -----

module attributes {onnx.model = "/nonexistent/m.onnx"} {
  // expected-error @+1 {{constant 'shape' shapes the program, but its bytes cannot be read from '/nonexistent/m.data'}}
  onnx.initializer @shape : tensor<2xi64> from "m.data"[0, 16]
  func.func @f(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
    %to = onnx.get @shape : tensor<2xi64>
    %0 = onnx.node "Reshape"(%x, %to) : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}

// -----

module {
  // expected-error @+1 {{input x has no static shape}}
  func.func @f(%x: tensor<?x4xf32> {onnx.name = "x"}) -> tensor<?x4xf32> {
    return %x : tensor<?x4xf32>
  }
}
