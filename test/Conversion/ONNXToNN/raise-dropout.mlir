// Masks that are drawn with one chance, as stochastic depth writes them.
// RUN: shardonnx-opt %s -raise-dropout | FileCheck %s --check-prefixes=CHECK,DROP
// RUN: shardonnx-opt %s -raise-dropout=dropout=off | FileCheck %s --check-prefixes=CHECK,OFF

// CHECK-LABEL: func.func @floor(
// DROP: %[[MEAN:.*]] = nn.constant dense<8.000000e-01> : tensor<2x1xf32>
// DROP-NEXT: nn.dropout %[[MEAN]], %{{.*}} {ratio = {{0.19999[0-9]*|2.0+[0-9]*e-01}} : f64, samples = 2 : i64, stream = 1 : i64}
// OFF: %[[MEAN:.*]] = nn.constant dense<8.000000e-01> : tensor<2x1xf32>
// OFF-NOT: nn.dropout
// OFF: return %[[MEAN]]
func.func @floor(%r: tensor<3xi64>) -> tensor<2x1xf32> {
  %keep = nn.constant dense<0.8> : tensor<f32>
  %u = nn.random_uniform %r {samples = 2 : i64, stream = 1 : i64} : (tensor<3xi64>) -> tensor<2x1xf32>
  %s = nn.add %u, %keep : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %m = nn.floor %s : (tensor<2x1xf32>) -> tensor<2x1xf32>
  return %m : tensor<2x1xf32>
}

// u < p, and p <= u, whose chance is that of the rest.
// CHECK-LABEL: func.func @flags(
// DROP: nn.dropout %{{.*}} {ratio = 7.500000e-01 : f64
// DROP: nn.dropout %{{.*}} {ratio = 2.500000e-01 : f64
// OFF-NOT: nn.dropout
func.func @flags(%r: tensor<3xi64>) -> (tensor<2x1xf16>, tensor<2x1xf32>) {
  %p = nn.constant dense<0.25> : tensor<f32>
  %u = nn.random_uniform %r {samples = 2 : i64, stream = 0 : i64} : (tensor<3xi64>) -> tensor<2x1xf32>
  %v = nn.random_uniform %r {samples = 2 : i64, stream = 1 : i64} : (tensor<3xi64>) -> tensor<2x1xf32>
  %a = nn.compare lt %u, %p : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xi1>
  %b = nn.compare le %p, %v : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xi1>
  %x = nn.cast %a : tensor<2x1xi1> -> tensor<2x1xf16>
  %y = nn.cast %b : tensor<2x1xi1> -> tensor<2x1xf32>
  return %x, %y : tensor<2x1xf16>, tensor<2x1xf32>
}

// What else reads the numbers, or a sum that is never between 1 and 2.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: nn.dropout
// CHECK: return
func.func @others(%r: tensor<3xi64>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>) {
  %p = nn.constant dense<0.25> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %u = nn.random_uniform %r {samples = 2 : i64, stream = 0 : i64} : (tensor<3xi64>) -> tensor<2x1xf32>
  %v = nn.random_uniform %r {samples = 2 : i64, stream = 1 : i64} : (tensor<3xi64>) -> tensor<2x1xf32>
  %a = nn.compare lt %u, %p : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xi1>
  %x = nn.cast %a : tensor<2x1xi1> -> tensor<2x1xf32>
  %s = nn.add %v, %two : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %y = nn.floor %s : (tensor<2x1xf32>) -> tensor<2x1xf32>
  return %x, %y, %u : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>
}
