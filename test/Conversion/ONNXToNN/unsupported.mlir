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

// expected-error @+1 {{these ONNX ops are not supported: com.example::Relu ×1 ('r')}}
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

// -----

// Operands that no op takes, whatever the library that infers shapes let pass.
// expected-error @+1 {{these ONNX ops are not supported: Gemm ×1 ('g'): its operands do not fit: operands do not fit each other: 'tensor<2x4xf32>' and 'tensor<5x3xf32>'; Attention ×1 ('a'): its query, keys and values do not fit}}
module {
  func.func @f(%x: tensor<2x4xf32>, %w: tensor<5x3xf32>, %q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x5xf32>) -> tensor<2x4xf32> {
    %0 = onnx.node "Gemm"(%x, %w) : (tensor<2x4xf32>, tensor<5x3xf32>) -> tensor<2x3xf32> loc(fused<{node = "g", op = "Gemm"}>["g"])
    %2 = onnx.node "Attention"(%q, %k, %k) : (tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>, tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32> loc(fused<{node = "a", op = "Attention"}>["a"])
    return %x : tensor<2x4xf32>
  }
}

// -----

// expected-error @+1 {{these ONNX ops are not supported: Add ×1 ('a'): its operands do not fit: one that it needs is left out}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %none = onnx.none
    %0 = onnx.node "Add"(%x, %none) : (tensor<2x4xf32>, none) -> tensor<2x4xf32> loc(fused<{node = "a", op = "Add"}>["a"])
    return %0 : tensor<2x4xf32>
  }
}

// -----

// A sequence that is longer than the table of positions is told by the node
// that reads the table, not by the data of a run.
module {
  onnx.initializer @wpe.weight : tensor<4x8xf32> from "m.onnx"[0, 128] {trainable}
  func.func @f(%x: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
    %positions = onnx.node "Constant"() {value_ints = array<i64: 0, 1, 2, 3, 4, 5>} : () -> tensor<6xi64>
    %table = onnx.get @wpe.weight : tensor<4x8xf32>
    // expected-error @+1 {{'wpe.weight' has 4 rows, but it reads number 4: a sequence of 6 is longer than the model has positions for; compile with --seq=4 or less, or export the model with a longer table}}
    %0 = onnx.node "Gather"(%table, %positions) : (tensor<4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
    %1 = onnx.node "Add"(%x, %0) : (tensor<2x6x8xf32>, tensor<6x8xf32>) -> tensor<2x6x8xf32>
    return %1 : tensor<2x6x8xf32>
  }
}

// -----

module {
  onnx.initializer @wpe.weight : tensor<4x8xf32> from "m.onnx"[0, 128] {trainable}
  func.func @f() -> tensor<2x8xf32> {
    %rows = onnx.node "Constant"() {value_ints = array<i64: 0, 7>} : () -> tensor<2xi64>
    %table = onnx.get @wpe.weight : tensor<4x8xf32>
    // expected-error @+1 {{'wpe.weight' has 4 rows, but it reads number 7}}
    %0 = onnx.node "Gather"(%table, %rows) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}

// -----

// The same of positions that are counted in the data: padding_idx + the running
// sum of what is no padding.
module {
  onnx.initializer @wpe.weight : tensor<6x8xf32> from "m.onnx"[0, 192] {trainable}
  func.func @f(%ids: tensor<2x6xi64>) -> tensor<2x6x8xf32> {
    %one = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
    %same = onnx.node "Equal"(%ids, %one) : (tensor<2x6xi64>, tensor<i64>) -> tensor<2x6xi1>
    %not = onnx.node "Not"(%same) : (tensor<2x6xi1>) -> tensor<2x6xi1>
    %mask = onnx.node "Cast"(%not) {to = 7 : i64} : (tensor<2x6xi1>) -> tensor<2x6xi64>
    %sum = onnx.node "CumSum"(%mask, %one) : (tensor<2x6xi64>, tensor<i64>) -> tensor<2x6xi64>
    %real = onnx.node "Mul"(%sum, %mask) : (tensor<2x6xi64>, tensor<2x6xi64>) -> tensor<2x6xi64>
    %positions = onnx.node "Add"(%real, %one) : (tensor<2x6xi64>, tensor<i64>) -> tensor<2x6xi64>
    %table = onnx.get @wpe.weight : tensor<6x8xf32>
    // expected-error @+1 {{'wpe.weight' has 6 rows, but it reads number 7 where all of a mask counts: a sequence of 6 is longer than the model has positions for; compile with --seq=4 or less, or export the model with a longer table}}
    %rows = onnx.node "Gather"(%table, %positions) {axis = 0 : i64} : (tensor<6x8xf32>, tensor<2x6xi64>) -> tensor<2x6x8xf32>
    func.return %rows : tensor<2x6x8xf32>
  }
}

// -----

// The same where the table is cut to the sequence, and is too short.
module {
  onnx.initializer @pe : tensor<1x4x8xf32> from "m.onnx"[0, 128] {trainable}
  func.func @f(%x: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
    %c0 = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
    %c1 = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
    %c6 = onnx.node "Constant"() {value_ints = array<i64: 6>} : () -> tensor<1xi64>
    %table = onnx.get @pe : tensor<1x4x8xf32>
    // expected-error @+1 {{'pe' has 4 elements along axis 1, but it takes those from 0 to 5: a sequence of 6 is longer than the model has positions for; compile with --seq=4 or less}}
    %0 = onnx.node "Slice"(%table, %c0, %c6, %c1) : (tensor<1x4x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x4x8xf32>
    %1 = onnx.node "Add"(%x, %0) : (tensor<2x6x8xf32>, tensor<1x4x8xf32>) -> tensor<2x6x8xf32>
    return %1 : tensor<2x6x8xf32>
  }
}

// -----

// What is no float is no parameter.
module {
  // expected-error @+1 {{constant 'mask' has 67108864 elements of 'i1', and no more than 33554432 can be in a program: let the graph compute it, or make it an input}}
  onnx.initializer @mask : tensor<1x1x8192x8192xi1> from "m.onnx"[0, 67108864]
  func.func @f(%x: tensor<1x1x8192x8192xf32>) -> tensor<1x1x8192x8192xf32> {
    %mask = onnx.get @mask : tensor<1x1x8192x8192xi1>
    %0 = onnx.node "Where"(%mask, %x, %x) : (tensor<1x1x8192x8192xi1>, tensor<1x1x8192x8192xf32>, tensor<1x1x8192x8192xf32>) -> tensor<1x1x8192x8192xf32>
    return %0 : tensor<1x1x8192x8192xf32>
  }
}

// -----

// To train, f64 is computed in f32 (nn-demote-f64); a graph that is run as it is
// keeps its types.
// expected-error @+1 {{these ONNX ops are not supported: Cast ×1 ('c'): it computes f64 from data, and a program computes f32, f16, bf16, i32, i64 and bool: let the module use one of these}}
module attributes {onnx.evaluate} {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = onnx.node "Cast"(%x) {to = 11 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf64> loc(fused<{node = "c", op = "Cast"}>["c"])
    %1 = onnx.node "Cast"(%0) {to = 1 : i64} : (tensor<2x4xf64>) -> tensor<2x4xf32> loc(fused<{node = "d", op = "Cast"}>["d"])
    return %1 : tensor<2x4xf32>
  }
}

// -----

// The exporter's zeros for a convolution without a bias may have two axes.
// expected-error @+1 {{these ONNX ops are not supported: Conv ×1 ('c'): its bias is not one number for each output channel; give the layer one of its own (bias=True), or export with optimize=True}}
module {
  func.func @f(%x: tensor<1x2x4xf32>, %w: tensor<3x2x1xf32>, %b: tensor<3x2xf32>) -> tensor<1x3x4xf32> {
    %0 = onnx.node "Conv"(%x, %w, %b) : (tensor<1x2x4xf32>, tensor<3x2x1xf32>, tensor<3x2xf32>) -> tensor<1x3x4xf32> loc(fused<{node = "c", op = "Conv"}>["c"])
    return %0 : tensor<1x3x4xf32>
  }
}
