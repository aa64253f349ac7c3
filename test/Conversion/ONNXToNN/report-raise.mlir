// What is one op, and what is written out and why.
// RUN: shardonnx-opt %s -report-raise -split-input-file | FileCheck %s
// RUN: shardonnx-opt %s -report-raise=strict -split-input-file | FileCheck %s --check-prefix=STRICT

// CHECK: nn.raised = [{nodes = ["act", "act2"], what = "gelu"}]
module {
  func.func @found(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.gelu %x : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "act", op = "Mul"}>["act"])
    %1 = nn.gelu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32> loc(fused<{node = "act2", op = "Mul"}>["act2"])
    return %1 : tensor<2x4xf32>
  }
}

// -----

// A softmax that weights nothing was never attention.
// CHECK: {{^}}module {
// CHECK-NEXT: func.func @router
module {
  func.func @router(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = nn.softmax %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// -----

// CHECK: nn.raised = [{nodes = ["soft"], what = "attention", why = "its scores are not [batch, heads, queries, keys]"}]
// STRICT: nn.raised = [{nodes = ["soft"], what = "attention", why = "--strict-numerics keeps what is written out"}]
module {
  func.func @windows(%q: tensor<2x3x5x4x8xf32>, %k: tensor<2x3x5x4x8xf32>, %v: tensor<2x3x5x4x8xf32>) -> tensor<2x3x5x4x8xf32> {
    %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x4x8xf32>, tensor<2x3x5x4x8xf32>) -> tensor<2x3x5x4x4xf32>
    %p = nn.softmax %s : (tensor<2x3x5x4x4xf32>) -> tensor<2x3x5x4x4xf32> loc(fused<{node = "soft", op = "Softmax"}>["soft"])
    %r = nn.matmul %p, %v : (tensor<2x3x5x4x4xf32>, tensor<2x3x5x4x8xf32>) -> tensor<2x3x5x4x8xf32>
    return %r : tensor<2x3x5x4x8xf32>
  }
}

// -----

// CHECK: nn.raised = [{nodes = ["root"], what = "norm", why = "what lies around the root of its mean of squares is not known"}]
module {
  func.func @root(%x: tensor<2x4xf32>) -> tensor<2x1xf32> {
    %two = nn.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %m = nn.reduce_mean %two {axes = array<i64: 1>, keepdims} : (tensor<2x4xf32>) -> tensor<2x1xf32>
    %r = nn.sqrt %m : (tensor<2x1xf32>) -> tensor<2x1xf32> loc(fused<{node = "root", op = "Sqrt"}>["root"])
    return %r : tensor<2x1xf32>
  }
}

// -----

// A column of the softmax that no key has, and that is not the same for all
// queries.
// CHECK: nn.raised = [{nodes = ["sm"], what = "attention", why = "its softmax is over more than its scores and a sink of each head"}]
module {
  func.func @sink(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>, %s: tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32> {
    %0 = nn.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
    %1 = nn.concat %0, %s {axis = 3 : i64} : (tensor<1x2x3x3xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32>
    %2 = nn.softmax %1 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> loc(fused<{node = "sm", op = "Softmax"}>["sm"])
    %3 = nn.slice %2 {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 2, 3, 3>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
    %4 = nn.matmul %3, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
    return %4 : tensor<1x2x3x4xf32>
  }
}
