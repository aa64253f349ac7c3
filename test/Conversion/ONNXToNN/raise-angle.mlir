// RUN: shardonnx-opt %s -raise-activation | FileCheck %s

// torch.atan2(y, x) as the newer exporter writes it, with 0 for what is not a
// number: the quotient is that of the smaller by the larger side, and only both
// sides of 0 or infinity are told from a quotient. What guards against what is
// not a number stays, as it may be the model's own.
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
  // CHECK: nn.stop_gradient %[[SMALL]]
  // CHECK: %[[LOW:.*]] = nn.compare eq %[[HEIGHT]]
  // CHECK: %[[THIN:.*]] = nn.compare eq %[[WIDTH]]
  // CHECK: nn.and %[[LOW]], %[[THIN]]
  // CHECK: nn.stop_gradient %[[LARGE]]
  // CHECK: nn.atan
  // CHECK: %[[ANGLE:.*]] = nn.select %[[STEEP]]
  // CHECK-NEXT: %[[NAN:.*]] = nn.compare ne %[[ANGLE]], %[[ANGLE]]
  // CHECK-NEXT: %[[RESULT:.*]] = nn.select %[[NAN]], %{{.*}}, %[[ANGLE]]
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

// A comparison of what is constant is folded.
// CHECK-LABEL: func.func @constant_x
// CHECK-NOT: nn.div %arg0
// CHECK: nn.stop_gradient
// CHECK: nn.atan
func.func @constant_x(%y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  %x = nn.constant dense<[-1.0, -2.0, 0.0, 3.0]> : tensor<4xf32>
  %left = nn.constant dense<[true, true, false, false]> : tensor<4xi1>
  %slope = nn.div %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.compare gt %y, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}

// Flags that are not the constant's signs are the model's own.
// CHECK-LABEL: func.func @other_flags
// CHECK-NOT: nn.stop_gradient
// CHECK: nn.div %arg0
func.func @other_flags(%y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  %x = nn.constant dense<[-1.0, -2.0, 0.0, 3.0]> : tensor<4xf32>
  %left = nn.constant dense<[true, true, true, false]> : tensor<4xi1>
  %slope = nn.div %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.compare gt %y, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}

// CHECK-LABEL: func.func @constant_y
// CHECK-NOT: nn.div %{{.*}}, %arg0
// CHECK: nn.stop_gradient
// CHECK: nn.atan
func.func @constant_y(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  %y = nn.constant dense<-2.0> : tensor<f32>
  %slope = nn.div %y, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %up = nn.constant dense<false> : tensor<i1>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %left = nn.compare lt %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}

// By 1 the quotient is a reciprocal.
// CHECK-LABEL: func.func @one
// CHECK: nn.stop_gradient
// CHECK-NOT: nn.reciprocal
func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  %slope = nn.reciprocal %x : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.constant dense<true> : tensor<i1>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %left = nn.compare lt %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}

// CHECK-LABEL: func.func @not_one
// CHECK: nn.reciprocal
// CHECK-NOT: nn.stop_gradient
func.func @not_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %pi = nn.constant dense<3.14159274> : tensor<f32>
  %slope = nn.reciprocal %x : (tensor<4xf32>) -> tensor<4xf32>
  %up = nn.constant dense<false> : tensor<i1>
  %a = nn.atan %slope : (tensor<4xf32>) -> tensor<4xf32>
  %left = nn.compare lt %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %more = nn.add %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %less = nn.sub %a, %pi : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %turned = nn.select %up, %more, %less : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %angle = nn.select %left, %turned, %a : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %angle : tensor<4xf32>
}

// Of 16 bits the arc tangent alone is computed in f32, of a side that is
// broadcast the sign is that of the side.
// CHECK-LABEL: func.func @half
func.func @half(%row: tensor<1x4xf16>, %x: tensor<4x4xf16>) -> tensor<4x4xf16> {
  // CHECK-DAG: nn.cast %arg1 : tensor<4x4xf16> -> tensor<4x4xf32>
  // CHECK: nn.stop_gradient
  // CHECK: %[[RESULT:.*]] = nn.cast %{{.*}} : tensor<4x4xf32> -> tensor<4x4xf16>
  // CHECK-NEXT: return %[[RESULT]]
  %zero = nn.constant dense<0.0> : tensor<f16>
  %pi = nn.constant dense<3.140630e+00> : tensor<f16>
  %y = nn.broadcast %row : tensor<1x4xf16> -> tensor<4x4xf16>
  %slope = nn.div %y, %x : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %wide = nn.cast %slope : tensor<4x4xf16> -> tensor<4x4xf32>
  %atan = nn.atan %wide : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = nn.cast %atan : tensor<4x4xf32> -> tensor<4x4xf16>
  %up = nn.compare gt %row, %zero : (tensor<1x4xf16>, tensor<f16>) -> tensor<1x4xi1>
  %more = nn.add %a, %pi : (tensor<4x4xf16>, tensor<f16>) -> tensor<4x4xf16>
  %less = nn.sub %a, %pi : (tensor<4x4xf16>, tensor<f16>) -> tensor<4x4xf16>
  %turned = nn.select %up, %more, %less : (tensor<1x4xi1>, tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %left = nn.compare lt %x, %zero : (tensor<4x4xf16>, tensor<f16>) -> tensor<4x4xi1>
  %angle = nn.select %left, %turned, %a : (tensor<4x4xi1>, tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  return %angle : tensor<4x4xf16>
}
