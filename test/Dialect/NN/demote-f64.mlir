// What is f64 becomes f32: arguments, results, constants, parameters where they are read.
// RUN: shardonnx-opt %s -nn-demote-f64 -verify-diagnostics -split-input-file | FileCheck %s


nn.parameter @w : tensor<4xf32> {onnx_name = "w", source = #nn.external<file = "m.onnx", offset = 0, length = 32, elementType = f64>}

// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>, %[[T:.*]]: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
func.func @forward(%x: tensor<2x4xf32>, %t: tensor<2x4xf64>) -> (tensor<2x4xf64>, tensor<2x4xi1>) {
  // Widening is nothing now.
  // CHECK-NOT: nn.cast
  %wide = nn.cast %x : tensor<2x4xf32> -> tensor<2x4xf64>
  // Of an op that rounds otherwise than the graph says, the first is named.
  // CHECK: %[[W:.*]] = nn.get @w : tensor<4xf32>
  // expected-warning @+1 {{is float64 in the graph and computed in float32, as 2 more are}}
  %w = nn.get @w : tensor<4xf64>
  // CHECK: nn.sub %[[X]], %[[T]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = nn.sub %wide, %t : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
  %1 = nn.mul %0, %w : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
  // The largest f64 is a bound above all numbers, infinity is none.
  // CHECK: nn.constant dense<[3.40282347E+38, 0x7F800000, -3.40282347E+38, 1.000000e-01]> : tensor<4xf32>
  %bounds = nn.constant dense<[1.7976931348623157e308, 0x7FF0000000000000, -1.0e39, 0.1]> : tensor<4xf64>
  %2 = nn.compare lt %1, %bounds : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xi1>
  return %1, %2 : tensor<2x4xf64>, tensor<2x4xi1>
}

// -----

// What is not 0 or 1 does not become so; nothing is a denormal number.
// CHECK-LABEL: func.func @bounds
func.func @bounds(%x: tensor<2x5xf64>) -> tensor<2x5xf64> {
  // CHECK: nn.constant dense<[0.99999994, -0.99999994, 1.00000012, 1.17549435E-38, 1.000000e+00]> : tensor<5xf32>
  %0 = nn.constant dense<[0.999999999999, -0.999999999999, 1.000000000001, 2.2250738585072014e-308, 1.0]> : tensor<5xf64>
  // expected-warning @+1 {{is float64 in the graph and computed in float32}}
  %1 = nn.min %x, %0 : (tensor<2x5xf64>, tensor<5xf64>) -> tensor<2x5xf64>
  return %1 : tensor<2x5xf64>
}

// -----

// CHECK-LABEL: func.func @counted
func.func @counted(%i: tensor<4xi64>) -> tensor<4xf64> {
  // expected-warning @+1 {{is float64 in the graph and computed in float32, as 1 more are; integers beyond 16777216 are rounded}}
  %0 = nn.cast %i : tensor<4xi64> -> tensor<4xf64>
  %1 = nn.neg %0 : (tensor<4xf64>) -> tensor<4xf64>
  return %1 : tensor<4xf64>
}
