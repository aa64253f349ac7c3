// What the verifiers of the group NNMath refuse.
// RUN: shardonnx-opt %s -verify-diagnostics -split-input-file

func.func @remainder(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{is not defined for 'f32'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.remainder %x, %y {floor} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @quotient(%x: tensor<4xi64>, %y: tensor<4xi32>) {
  // expected-error @+2 {{operands do not fit: 'tensor<4xi64>' and 'tensor<4xi32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.quotient %x, %y : (tensor<4xi64>, tensor<4xi32>) -> tensor<4xi64>
  return
}

// -----

func.func @quotient(%x: tensor<4xi64>, %y: tensor<3xi64>) {
  // expected-error @+2 {{operands do not fit}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.quotient %x, %y : (tensor<4xi64>, tensor<3xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @log_sum_exp(%x: tensor<f32>) {
  // expected-error @+2 {{works on the last axis, so not a scalar}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.log_sum_exp %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @floor(%x: tensor<4xi64>) {
  // expected-error @+1 {{operand #0 must be}}
  %0 = nn.floor %x : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @cumsum(%x: tensor<4xi64>) {
  // expected-error @+2 {{cannot sum 'tensor<4xi64>' along axis 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.cumsum %x {axis = 1 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @cumsum(%x: tensor<4xi1>) {
  // expected-error @+2 {{cannot sum 'tensor<4xi1>' along axis 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.cumsum %x {axis = 0 : i64} : (tensor<4xi1>) -> tensor<4xi1>
  return
}
