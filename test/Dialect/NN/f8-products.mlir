// RUN: shardonnx-opt %s -nn-f8-products=dtype=fp8 -split-input-file | FileCheck %s
// RUN: shardonnx-opt %s -nn-f8-products=dtype=fp8 -nn-differentiate -nn-decompose -split-input-file | FileCheck %s --check-prefix=GRAD
// RUN: shardonnx-opt %s -nn-f8-products -split-input-file | FileCheck %s --check-prefix=PARAM
// RUN: shardonnx-opt %s -nn-f8-products="dtype=fp8 least-gain=100" -split-input-file | FileCheck %s --check-prefix=GAIN
// RUN: not shardonnx-opt %s -nn-f8-products=device=h9 -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEVICE

// Linear layers of units other than the root read rounded operands, with one
// scale, or one a row where the unit's policy says so.

// CHECK: nodes = ["first", "second"], what = "products of 8 bits"
// CHECK-SAME: nodes = ["odd"], what = "products of 8 bits", why = "a size is no multiple of 16"

// CHECK-LABEL: func.func @forward
// CHECK: %[[W:.*]] = nn.get @w
// CHECK: %[[X:.*]] = nn.f8_round e4m3 %arg0
// CHECK: %[[ABS:.*]] = nn.abs %[[W]]
// CHECK: %[[AMAX:.*]] = nn.reduce_max %[[ABS]] {axes = array<i64: 0, 1>, keepdims
// CHECK: %[[STEP:.*]] = nn.f8_step e4m3 %[[AMAX]]
// CHECK: %[[LOW:.*]] = nn.f8_round e4m3 %[[W]], %[[STEP]]
// CHECK: nn.f8_matmul tensorwise %[[X]], %[[LOW]], %arg0, %[[W]], %[[LOW]] {place = #nn.place<@h.0>, transpose_rhs}
// CHECK: %[[V:.*]] = nn.get @v
// CHECK: %[[ROWS:.*]] = nn.f8_round {{.*}} : (tensor<16x32xf32>, tensor<16x1xf32>)
// CHECK: %[[LARGEST:.*]] = nn.reduce_max {{.*}} : (tensor<64x32xf32>) -> tensor<64x1xf32>
// CHECK: %[[COLUMNS:.*]] = nn.f8_round e4m3 %[[V]], {{.*}} : (tensor<64x32xf32>, tensor<64x1xf32>)
// CHECK: nn.abs %[[LARGEST]]
// CHECK: %[[BACK:.*]] = nn.f8_round e4m3 %[[V]], {{.*}} : (tensor<64x32xf32>, tensor<1x1xf32>)
// CHECK: nn.f8_matmul rowwise %[[ROWS]], %[[COLUMNS]], %{{.*}}, %[[V]], %[[BACK]]
// CHECK-COUNT-2: nn.matmul

// The weight's gradient is a product of rounded operands by tensors, and of
// what they were rounded from by rows; the rows' gradient is rounded always.

// GRAD-LABEL: func.func @microbatch
// GRAD-DAG: %[[W:.*]] = nn.f8_round e4m3 {{.*}} : (tensor<32x48xf32>, tensor<1x1xf32>)
// GRAD-DAG: %[[X:.*]] = nn.f8_round e4m3 %arg0
// GRAD: %[[MIDDLE:.*]] = nn.matmul %[[X]], %[[W]]
// GRAD: %[[BACK:.*]] = nn.f8_round e4m3 {{.*}} : (tensor<64x32xf32>, tensor<1x1xf32>)
// GRAD: %[[G:.*]] = nn.matmul {{.*}} : (tensor<16x16xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
// GRAD: %[[ROWS:.*]] = nn.f8_round e4m3 %[[G]], {{.*}} : (tensor<16x64xf32>, tensor<16x1xf32>)
// GRAD: nn.matmul %[[ROWS]], %[[BACK]]
// GRAD: nn.matmul %[[G]], %[[MIDDLE]] {{.*}}transpose_lhs
// GRAD: nn.grad @v
// GRAD: %[[LOW:.*]] = nn.f8_round e5m2
// GRAD-NOT: nn.matmul
// GRAD: nn.matmul %[[LOW]], %[[X]] {{.*}}transpose_lhs
// GRAD: nn.grad @w

// GAIN: nodes = ["first", "second"], what = "products of 8 bits", why = "8 bits save no time"
// GAIN-NOT: nn.f8_matmul
// DEVICE: no device is called h9

// PARAM-LABEL: func.func @forward
// PARAM-NOT: f8
// PARAM: nn.matmul %arg0
// PARAM: nn.f8_matmul rowwise

module attributes {nn.reduce_dtype = f32, nn.unit_policies = {h.1 = {matmul_dtype = "fp8:rowwise"}}} {
  nn.parameter @w : tensor<32x48xf32> trainable {onnx_name = "w", place = #nn.place<@h.0>}
  nn.parameter @v : tensor<64x32xf32> trainable {onnx_name = "v", place = #nn.place<@h.1>}
  nn.parameter @odd : tensor<16x7xf32> {onnx_name = "odd", place = #nn.place<@h.1>}
  nn.parameter @head : tensor<16x64xf32> trainable {onnx_name = "head", place = #nn.place<@root>}
  func.func @forward(%x: tensor<16x48xf32>, %y: tensor<16x7xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %w = nn.get @w {place = #nn.place<@h.0>} : tensor<32x48xf32>
    %0 = nn.matmul %x, %w {transpose_rhs, place = #nn.place<@h.0>} : (tensor<16x48xf32>, tensor<32x48xf32>) -> tensor<16x32xf32> loc(#first)
    %v = nn.get @v {place = #nn.place<@h.1>} : tensor<64x32xf32>
    %1 = nn.matmul %0, %v {transpose_rhs, place = #nn.place<@h.1>} : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32> loc(#second)
    %odd = nn.get @odd {place = #nn.place<@h.1>} : tensor<16x7xf32>
    %2 = nn.matmul %y, %odd {transpose_rhs, place = #nn.place<@h.1>} : (tensor<16x7xf32>, tensor<16x7xf32>) -> tensor<16x16xf32> loc(#odd)
    %head = nn.get @head {place = #nn.place<@root>} : tensor<16x64xf32>
    %3 = nn.matmul %1, %head {transpose_rhs, place = #nn.place<@root>} : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x16xf32>
    %sum = nn.reduce_sum %3 {axes = array<i64: 0, 1>, place = #nn.place<@root>} : (tensor<16x16xf32>) -> tensor<f32>
    nn.loss %sum {denominator = "elements", place = #nn.place<@root>} : tensor<f32>
    return %3, %2 : tensor<16x16xf32>, tensor<16x16xf32>
  }
}
#first = loc(fused<{node = "first"}>["first"])
#second = loc(fused<{node = "second"}>["second"])
#odd = loc(fused<{node = "odd"}>["odd"])

// -----

// Gradients side by side that kernels of ours make are rounded where they are
// made, by one scale a row.

// GRAD-LABEL: func.func @microbatch
// GRAD: nn.concat
// GRAD: %[[MAX:.*]] = nn.max {{.*}} : (tensor<16x1xf32>, tensor<16x1xf32>) -> tensor<16x1xf32>
// GRAD-COUNT-2: nn.f8_round e4m3 %{{.*}} : (tensor<16x16xf32>, tensor<16x1xf32>)
// GRAD: %[[LOW:.*]] = nn.concat {{.*}} -> tensor<16x32xf32>
// GRAD: nn.matmul %[[LOW]]

module attributes {nn.reduce_dtype = f32, nn.unit_policies = {h.0 = {matmul_dtype = "fp8:rowwise"}}} {
  nn.parameter @e : tensor<16x48xf32> trainable {onnx_name = "e", place = #nn.place<@root>}
  nn.parameter @w : tensor<32x48xf32> trainable {onnx_name = "w", place = #nn.place<@h.0>}
  func.func @forward() -> tensor<16x16xf32> {
    %x = nn.get @e {place = #nn.place<@root>} : tensor<16x48xf32>
    %w = nn.get @w {place = #nn.place<@h.0>} : tensor<32x48xf32>
    %0 = nn.matmul %x, %w {transpose_rhs, place = #nn.place<@h.0>} : (tensor<16x48xf32>, tensor<32x48xf32>) -> tensor<16x32xf32>
    %a = nn.slice %0 {offsets = array<i64: 0, 0>, sizes = array<i64: 16, 16>, place = #nn.place<@h.0>} : (tensor<16x32xf32>) -> tensor<16x16xf32>
    %b = nn.slice %0 {offsets = array<i64: 0, 16>, sizes = array<i64: 16, 16>, place = #nn.place<@h.0>} : (tensor<16x32xf32>) -> tensor<16x16xf32>
    %1 = nn.mul %a, %b {place = #nn.place<@h.0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %sum = nn.reduce_sum %1 {axes = array<i64: 0, 1>, place = #nn.place<@root>} : (tensor<16x16xf32>) -> tensor<f32>
    nn.loss %sum {denominator = "elements", place = #nn.place<@root>} : tensor<f32>
    return %1 : tensor<16x16xf32>
  }
}
