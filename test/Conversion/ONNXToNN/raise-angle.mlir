// RUN: shardonnx-opt %s -raise-activation | FileCheck %s

// torch.atan2(y, x) as the newer exporter writes it, with 0 for what is not a
// number: the quotient is that of the smaller by the larger side.
// CHECK-LABEL: func.func @atan2
func.func @atan2(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  // CHECK: %[[HEIGHT:.*]] = nn.abs %arg0
  // CHECK: %[[WIDTH:.*]] = nn.abs %arg1
  // CHECK: %[[STEEP:.*]] = nn.compare gt %[[HEIGHT]], %[[WIDTH]]
  // CHECK: %[[SMALL:.*]] = nn.select %[[STEEP]], %arg1, %arg0
  // CHECK: %[[LARGE:.*]] = nn.select %[[STEEP]], %arg0, %arg1
  // CHECK-NOT: nn.div %arg0, %arg1
  // CHECK: nn.atan
  // CHECK-NOT: nn.compare ne
  // CHECK: %[[RESULT:.*]] = nn.select %[[STEEP]]
  // CHECK-NEXT: return %[[RESULT]]
  %slope = nn.div %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.compare gt %y, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %left = nn.compare lt %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %nan = nn.compare ne %angle, %angle : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %result = nn.select %nan, %zero, %angle : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %result : tensor<4xf32>
}

// Turns by something else are none of it.
// CHECK-LABEL: func.func @other
// CHECK: nn.div %arg0, %arg1
func.func @other(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %slope = nn.div %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.compare gt %y, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %left = nn.compare lt %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}
