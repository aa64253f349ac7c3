// RUN: shardonnx-opt %s -raise-activation | FileCheck %s

// As transformers' NewGELUActivation: (0.5·x)·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³)))
// CHECK-LABEL: func.func @gelu_tanh
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: nn.gelu %arg0 {tanh}
  // CHECK-NEXT: return
  %half = nn.constant dense<0.5> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %c = nn.constant dense<0.044715> : tensor<f32>
  %s = nn.constant dense<0.797884583> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.mul %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = nn.mul %1, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.add %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.mul %3, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = nn.tanh %4 : (tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.add %5, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = nn.mul %0, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %7 : tensor<4xf32>
}

// As opset 18 writes torch.nn.GELU: 0.5·(x·(1 + erf(x/√2)))
// CHECK-LABEL: func.func @gelu_erf
func.func @gelu_erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: nn.gelu %arg0 :
  // CHECK-NEXT: return
  %half = nn.constant dense<0.5> : tensor<f32>
  %root = nn.constant dense<1.41421354> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.erf %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.add %one, %1 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.mul %half, %3 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: nn.silu %arg0
  %0 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.mul %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Other numbers make another function.
// CHECK-LABEL: func.func @other
func.func @other(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NOT: nn.gelu
  // CHECK-NOT: nn.silu
  %half = nn.constant dense<0.5> : tensor<f32>
  %root = nn.constant dense<1.5> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.erf %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.mul %3, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.mul %y, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4, %6 : tensor<4xf32>, tensor<4xf32>
}

// As exporters write torch's logsigmoid, which is finite at -200 and -2e-9 at 20.
// CHECK-LABEL: func.func @log_sigmoid
func.func @log_sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[MINUS:.*]] = nn.neg %arg0
  // CHECK-NEXT: %[[SOFT:.*]] = nn.softplus %[[MINUS]]
  // CHECK-NEXT: %[[RESULT:.*]] = nn.neg %[[SOFT]]
  // CHECK-NEXT: return %[[RESULT]]
  %0 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.log %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// As exporters write torch.logaddexp, which is finite at -1e5 and 200, and -inf
// of two -inf.
// CHECK-LABEL: func.func @log_add_exp
func.func @log_add_exp(%x: tensor<4xf32>, %y: tensor<3x1xf32>) -> tensor<3x4xf32> {
  // CHECK: %[[SAME:.*]] = nn.compare eq %arg0, %arg1
  // CHECK: %[[MINUS:.*]] = nn.sub %arg0, %arg1
  // CHECK: %[[DIFFERENCE:.*]] = nn.select %[[SAME]], %{{.*}}, %[[MINUS]]
  // CHECK: %[[DISTANCE:.*]] = nn.abs %[[DIFFERENCE]]
  // CHECK: nn.max %arg0, %arg1
  // CHECK: nn.softplus
  // CHECK-NOT: nn.log
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.exp %y : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %2 = nn.add %0, %1 : (tensor<4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %3 = nn.log %2 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}

// A positive number beside an exponential is one, too, which the exporter folds.
// CHECK-LABEL: func.func @log_of_exp_and_one
// CHECK-DAG: %[[LOG:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NOT: nn.exp
// CHECK: %[[MAX:.*]] = nn.max %arg0, %[[LOG]]
// CHECK: %[[SOFT:.*]] = nn.softplus
// CHECK: nn.add %[[MAX]], %[[SOFT]]
func.func @log_of_exp_and_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.add %0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = nn.log %1 : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @log_of_exp_and_numbers
func.func @log_of_exp_and_numbers(%x: tensor<4x1xf32>) -> tensor<4x2xf32> {
  // CHECK: %[[LOGS:.*]] = nn.constant dense<[0.000000e+00, 0.693147182]>
  // CHECK: nn.max %[[LOGS]], %arg0
  // CHECK: nn.softplus
  %numbers = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = nn.exp %x : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = nn.add %numbers, %0 : (tensor<2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %2 = nn.log %1 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// Of what is not positive there is no logarithm, and 0 is the exponential of
// any number below -104.
// CHECK-LABEL: func.func @log_of_exp_and_zero
// CHECK: nn.log
func.func @log_of_exp_and_zero(%x: tensor<4x1xf32>) -> tensor<4x2xf32> {
  %numbers = nn.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %0 = nn.exp %x : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = nn.add %0, %numbers : (tensor<4x1xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %2 = nn.log %1 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// The other half of the older exporter's binary cross-entropy of logits.
// CHECK-LABEL: func.func @log_one_minus_sigmoid
func.func @log_one_minus_sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[SOFT:.*]] = nn.softplus %arg0
  // CHECK-NEXT: %[[RESULT:.*]] = nn.neg %[[SOFT]]
  // CHECK-NEXT: return %[[RESULT]]
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.sub %one, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.log %1 : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// What is less than 2 by a sigmoid is never 0.
// CHECK-LABEL: func.func @log_two_minus_sigmoid
// CHECK: nn.log
func.func @log_two_minus_sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.sub %two, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.log %1 : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// F.binary_cross_entropy of a sigmoid clamps this logarithm, which is -inf where
// the sigmoid is 1: as written.
// CHECK-LABEL: func.func @log_one_plus_negative_sigmoid
// CHECK: nn.log
// CHECK-NOT: nn.softplus
func.func @log_one_plus_negative_sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.log %2 : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
