// A number that f32 does not hold is a bound, and no factor.
// RUN: shardonnx-opt %s -nn-demote-f64 -verify-diagnostics

func.func @factor(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = nn.constant dense<1.0e40> : tensor<f64>
  // expected-error @+1 {{computes with a float64 number that float32 does not hold; let the module use float32}}
  %1 = nn.mul %x, %0 : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
  return %1 : tensor<4xf64>
}
