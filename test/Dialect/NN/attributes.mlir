// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{"nn.kind" cannot be "lables"}}
func.func @unknown_kind(%x: tensor<4xi64> {nn.kind = "lables"}) {
  return
}

// -----

// expected-error @+1 {{the nn dialect has no attribute "nn.label" of arguments}}
func.func @unknown_of_argument(%x: tensor<4xi64> {nn.label = "x"}) {
  return
}

// -----

// expected-error @+1 {{"nn.name" cannot be 1 : i64}}
func.func @name_of_result(%x: tensor<4xi64>) -> (tensor<4xi64> {nn.name = 1}) {
  return %x : tensor<4xi64>
}

// -----

// expected-error @+1 {{the nn dialect has no attribute "nn.kind" of results}}
func.func @kind_of_result(%x: tensor<4xi64>) -> (tensor<4xi64> {nn.kind = "data"}) {
  return %x : tensor<4xi64>
}

// -----

func.func @of_op(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the nn dialect has no attribute "nn.unit" of nn.exp}}
  %y = nn.exp %x {nn.unit = @h.0} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{"nn.reduce_dtype" cannot be "f32"}}
module attributes {nn.reduce_dtype = "f32"} {
}

// -----

// expected-error @+1 {{the nn dialect has no attribute "nn.dtype" of builtin.module}}
module attributes {nn.dtype = f32} {
}
