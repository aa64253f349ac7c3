// RUN: shardonnx-opt %s -nn-store-f8 -split-input-file | FileCheck %s
// RUN: shardonnx-opt %s -nn-store-f8 -nn-fuse -split-input-file | FileCheck %s --check-prefix=FUSED
// RUN: shardonnx-opt %s -nn-store-f8=row-steps=false -split-input-file | FileCheck %s --check-prefix=ONE

// One step for each operand. What is summed along its columns is cast together
// with its transpose, from one read; sums that came with a product stay its.

// CHECK-LABEL: func.func @tensorwise
// CHECK: %[[XROWS:.*]], %[[XCOLUMNS:.*]] = nn.f8_cast_matrix e4m3 %arg0, %arg3 {{.*}} -> (tensor<32x48xf8E4M3FN>, tensor<48x32xf8E4M3FN>)
// CHECK: %[[W:.*]] = nn.f8_cast e4m3 %arg1, %arg4
// CHECK: nn.f8_product {{.*}}%[[XROWS]], %[[W]], %arg3, %arg4, %arg6{{.*}}fast
// CHECK: %{{.*}}, %[[GCOLUMNS:.*]] = nn.f8_cast_matrix e5m2 %arg2, %arg5
// CHECK: nn.f8_product {{.*}}%[[GCOLUMNS]], %[[XCOLUMNS]], %arg5, %arg3
// CHECK-NOT: fast
// CHECK: return
func.func @tensorwise(%x: tensor<32x48xbf16>, %w: tensor<64x48xbf16>, %g: tensor<32x64xbf16>, %sx: tensor<1x1xf32>, %sw: tensor<1x1xf32>, %sg: tensor<1x1xf32>, %bias: tensor<64xbf16>) -> (tensor<32x64xbf16>, tensor<64x48xf32>) {
  %rx = nn.f8_round e4m3 %x, %sx {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %rw = nn.f8_round e4m3 %w, %sw {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %y = nn.matmul_epilogue bias %rx, %rw, %bias {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>, tensor<64xbf16>) -> tensor<32x64xbf16>
  %rg = nn.f8_round e5m2 %g, %sg {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %dw = nn.matmul %rg, %rx {transpose_lhs, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xf32>
  return %y, %dw : tensor<32x64xbf16>, tensor<64x48xf32>
}

// -----

// A step for each row of both, or one repeated; a GPU whose library takes one
// alone multiplies what 8 bits stand for. Parts side by side stay so.

// CHECK-LABEL: func.func @rowwise
// CHECK-DAG: %[[A:.*]] = nn.f8_cast e4m3 %arg0, %arg3 {{.*}} -> tensor<32x16xf8E4M3FN>
// CHECK-DAG: %[[B:.*]] = nn.f8_cast e4m3 %arg1, %arg3 {{.*}} -> tensor<32x32xf8E4M3FN>
// CHECK-DAG: %[[WROWS:.*]], %[[WCOLUMNS:.*]] = nn.f8_cast_matrix e4m3 %arg2, %arg4
// CHECK: %[[G:.*]] = nn.concat %[[A]], %[[B]] {axis = 1
// CHECK: %[[STEPS:.*]] = nn.broadcast %arg4 {{.*}} -> tensor<64x1xf32>
// CHECK: nn.f8_product {{.*}}%[[G]], %[[WCOLUMNS]], %arg3, %[[STEPS]]
// ONE-LABEL: func.func @rowwise
// ONE-NOT: f8E4M3FN
// ONE: nn.matmul
func.func @rowwise(%a: tensor<32x16xbf16>, %b: tensor<32x32xbf16>, %w: tensor<48x64xbf16>, %sg: tensor<32x1xf32>, %sw: tensor<1x1xf32>) -> tensor<32x64xbf16> {
  %ra = nn.f8_round e4m3 %a, %sg {place = #nn.place<@h, backward>} : (tensor<32x16xbf16>, tensor<32x1xf32>) -> tensor<32x16xbf16>
  %rb = nn.f8_round e4m3 %b, %sg {place = #nn.place<@h, backward>} : (tensor<32x32xbf16>, tensor<32x1xf32>) -> tensor<32x32xbf16>
  %g = nn.concat %ra, %rb {axis = 1 : i64, place = #nn.place<@h, backward>} : (tensor<32x16xbf16>, tensor<32x32xbf16>) -> tensor<32x48xbf16>
  %rw = nn.f8_round e4m3 %w, %sw {place = #nn.place<@h, backward>} : (tensor<48x64xbf16>, tensor<1x1xf32>) -> tensor<48x64xbf16>
  %dx = nn.matmul %g, %rw {place = #nn.place<@h, backward>} : (tensor<32x48xbf16>, tensor<48x64xbf16>) -> tensor<32x64xbf16>
  return %dx : tensor<32x64xbf16>
}

// -----

// What the library does not multiply stays: two operands of two bits of
// mantissa, steps along the sum, one operand that is not rounded.

// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.f8_cast
// CHECK-COUNT-3: nn.matmul
func.func @others(%x: tensor<32x48xbf16>, %w: tensor<64x48xbf16>, %one: tensor<1x1xf32>, %along: tensor<1x48xf32>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %x2 = nn.f8_round e5m2 %x, %one {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %w2 = nn.f8_round e5m2 %w, %one {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %w3 = nn.f8_round e4m3 %w, %along {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x48xf32>) -> tensor<64x48xbf16>
  %0 = nn.matmul %x2, %w2 {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  %1 = nn.matmul %x2, %w3 {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  %2 = nn.matmul %x2, %w {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  return %0, %1, %2 : tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x64xbf16>
}

// -----

// Backward gathers a weight anew and casts it there: 8 bits of it are not kept.

// CHECK-LABEL: func.func @weights
// CHECK: %[[W:.*]] = nn.get @w
// CHECK: %[[ROWS:.*]] = nn.f8_cast e4m3 %[[W]]
// CHECK: nn.f8_product {{.*}}%[[ROWS]]
// CHECK: %{{.*}}, %[[COLUMNS:.*]] = nn.f8_cast_matrix e4m3 %[[W]], %arg2 {place = #nn.place<@h, recompute>}
// CHECK: nn.f8_product {{.*}}%[[COLUMNS]]
nn.parameter @w : tensor<64x48xbf16> trainable {onnx_name = "w", place = #nn.place<@h>}
func.func @weights(%x: tensor<32x48xbf16>, %g: tensor<32x64xbf16>, %s: tensor<1x1xf32>) -> (tensor<32x64xbf16>, tensor<32x48xbf16>) {
  %w = nn.get @w {place = #nn.place<@h>} : tensor<64x48xbf16>
  %rx = nn.f8_round e4m3 %x, %s {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %rw = nn.f8_round e4m3 %w, %s {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %y = nn.matmul %rx, %rw {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  %rg = nn.f8_round e5m2 %g, %s {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %dx = nn.matmul %rg, %rw {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
  return %y, %dx : tensor<32x64xbf16>, tensor<32x48xbf16>
}

// -----

// A tensor's step is taken once, by the kernel that computes the tensor, in
// whatever steps its largest value was asked for; backward takes forward's. The
// kernel that rounds waits for it.

// CHECK-LABEL: func.func @steps
// CHECK: %[[X:.*]] = nn.relu
// CHECK: %[[STEP:.*]] = nn.f8_tensor_step e4m3 %[[X]] {place = #nn.place<@h>} : (tensor<32x48xbf16>) -> tensor<1xf32>
// CHECK-NOT: nn.reduce_max
// CHECK-NOT: step e4m3
// CHECK: nn.f8_tensor_step e5m2 %arg2, %arg3
// CHECK-NOT: nn.reduce_max
// CHECK: return
// FUSED-LABEL: func.func @steps
// FUSED: %[[MADE:.*]]:2 = nn.fused rows [32, 48]
// FUSED-NEXT: nn.relu
// FUSED-NEXT: nn.f8_tensor_step
// FUSED-NEXT: nn.yield
// FUSED: %[[STEP:.*]] = nn.reshape %[[MADE]]#1
// FUSED: nn.fused rows [32, 48] ({{.*}} = %[[MADE]]#0 : {{.*}} = %[[STEP]] : {{.*}}) -> tensor<32x48xf8E4M3FN>
// FUSED: nn.fused rows [32, 64] ({{.*}} = %arg2 : {{.*}} = %arg3 : {{.*}}) -> tensor<1xf32>
func.func @steps(%a: tensor<32x48xbf16>, %rw: tensor<64x48xbf16>, %g: tensor<32x64xbf16>, %h: tensor<32x64xbf16>, %s: tensor<1x1xf32>) -> (tensor<32x64xbf16>, tensor<64x48xf32>, tensor<64x48xf32>) {
  %x = nn.relu %a {place = #nn.place<@h>} : (tensor<32x48xbf16>) -> tensor<32x48xbf16>
  %size = nn.abs %x {place = #nn.place<@h>} : (tensor<32x48xbf16>) -> tensor<32x48xbf16>
  %rows = nn.reduce_max %size {axes = array<i64: 1>, keepdims, place = #nn.place<@h>} : (tensor<32x48xbf16>) -> tensor<32x1xbf16>
  %flat = nn.reshape %rows {place = #nn.place<@h>} : tensor<32x1xbf16> -> tensor<32xbf16>
  %max = nn.reduce_max %flat {axes = array<i64: 0>, keepdims, place = #nn.place<@h>} : (tensor<32xbf16>) -> tensor<1xbf16>
  %amax = nn.reshape %max {place = #nn.place<@h>} : tensor<1xbf16> -> tensor<1x1xbf16>
  %wide = nn.cast %amax {place = #nn.place<@h>} : tensor<1x1xbf16> -> tensor<1x1xf32>
  %sx = nn.f8_step e4m3 %wide {place = #nn.place<@h>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %x1 = nn.f8_round e4m3 %x, %sx {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %w = nn.f8_round e4m3 %rw, %s {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %y = nn.matmul %x1, %w {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  %again = nn.cast %amax {place = #nn.place<@h, recompute>} : tensor<1x1xbf16> -> tensor<1x1xf32>
  %sx2 = nn.f8_step e4m3 %again {place = #nn.place<@h, recompute>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %x2 = nn.f8_round e4m3 %x, %sx2 {place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %gsize = nn.abs %g {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %grows = nn.reduce_max %gsize {axes = array<i64: 1>, keepdims, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>) -> tensor<32x1xbf16>
  %hsize = nn.abs %h {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>) -> tensor<32x64xbf16>
  %hrows = nn.reduce_max %hsize {axes = array<i64: 1>, keepdims, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>) -> tensor<32x1xbf16>
  %both = nn.max %grows, %hrows {place = #nn.place<@h, backward>} : (tensor<32x1xbf16>, tensor<32x1xbf16>) -> tensor<32x1xbf16>
  %sign = nn.abs %both {place = #nn.place<@h, backward>} : (tensor<32x1xbf16>) -> tensor<32x1xbf16>
  %gmax = nn.reduce_max %sign {axes = array<i64: 0, 1>, keepdims, place = #nn.place<@h, backward>} : (tensor<32x1xbf16>) -> tensor<1x1xbf16>
  %gwide = nn.cast %gmax {place = #nn.place<@h, backward>} : tensor<1x1xbf16> -> tensor<1x1xf32>
  %sg = nn.f8_step e5m2 %gwide {place = #nn.place<@h, backward>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %rg = nn.f8_round e5m2 %g, %sg {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %rh = nn.f8_round e5m2 %h, %sg {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %dw = nn.matmul %rg, %x2 {transpose_lhs, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xf32>
  %dv = nn.matmul %rh, %x2 {transpose_lhs, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xf32>
  return %y, %dw, %dv : tensor<32x64xbf16>, tensor<64x48xf32>, tensor<64x48xf32>
}

// -----

// What backward computes again, of elements, is rounded and transposed as it is
// computed: forward has its step. Sums of rows are another kernel's, and what a
// norm computes of its rows is rounded behind it.

// CHECK-LABEL: func.func @again
// CHECK: %[[X:.*]] = nn.silu %arg0 {place = #nn.place<@h, recompute>}
// CHECK: %[[ROWS:.*]] = nn.f8_cast e4m3 %[[X]], %arg3 {place = #nn.place<@h, recompute>}
// CHECK: %[[COLUMNS:.*]] = nn.transpose %[[ROWS]]
// CHECK: %[[N:.*]] = nn.mul %arg0, %arg4
// CHECK: %{{.*}}, %[[NORM:.*]] = nn.f8_cast_matrix e4m3 %[[N]]
// CHECK: nn.f8_product {{.*}}, %[[COLUMNS]],
// CHECK: nn.f8_product {{.*}}, %[[NORM]],
// FUSED-LABEL: func.func @again
// FUSED: nn.fused rows [32, 48] {{.*}} -> (tensor<32x48xbf16>, tensor<32x48xf8E4M3FN>, tensor<32x48xbf16>)
// FUSED-NEXT: nn.silu
// FUSED-NEXT: nn.f8_cast
// FUSED-NEXT: nn.mul
// FUSED-NEXT: nn.yield
// FUSED: nn.reduce_max
func.func @again(%a: tensor<32x48xbf16>, %g: tensor<32x64xbf16>, %sg: tensor<1x1xf32>, %s: tensor<1x1xf32>, %r: tensor<32x1xbf16>) -> (tensor<64x48xf32>, tensor<64x48xf32>, tensor<32x1xbf16>) {
  %rg = nn.f8_round e5m2 %g, %sg {place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<1x1xf32>) -> tensor<32x64xbf16>
  %x = nn.silu %a {place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>) -> tensor<32x48xbf16>
  %x1 = nn.f8_round e4m3 %x, %s {place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %n = nn.mul %a, %r {place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>, tensor<32x1xbf16>) -> tensor<32x48xbf16>
  %n1 = nn.f8_round e4m3 %n, %s {place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %dw = nn.matmul %rg, %x1 {transpose_lhs, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xf32>
  %dn = nn.matmul %rg, %n1 {transpose_lhs, place = #nn.place<@h, backward>} : (tensor<32x64xbf16>, tensor<32x48xbf16>) -> tensor<64x48xf32>
  %most = nn.reduce_max %x {axes = array<i64: 1>, keepdims, place = #nn.place<@h, recompute>} : (tensor<32x48xbf16>) -> tensor<32x1xbf16>
  return %dw, %dn, %most : tensor<64x48xf32>, tensor<64x48xf32>, tensor<32x1xbf16>
}

// -----

// The update has the step of weights, also of those that one product reads side
// by side; of what is rounded to fewer bits before, it has not.

// CHECK-LABEL: func.func @weight_steps
// CHECK-NOT: nn.reduce_max
// CHECK: nn.f8_weight_step [@p, @q] {place = #nn.place<@h>} : tensor<1xf32>
// CHECK-NOT: nn.reduce_max
// CHECK: nn.f8_tensor_step e4m3
// CHECK-NOT: nn.f8_weight_step
nn.parameter @p : tensor<32x48xf32> trainable {onnx_name = "p", place = #nn.place<@h>}
nn.parameter @q : tensor<32x48xf32> trainable {onnx_name = "q", place = #nn.place<@h>}
nn.parameter @narrow : tensor<64x48xf32> trainable {onnx_name = "narrow", place = #nn.place<@h>}
func.func @weight_steps(%x: tensor<32x48xbf16>, %s: tensor<1x1xf32>) -> (tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %rx = nn.f8_round e4m3 %x, %s {place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<32x48xbf16>
  %p = nn.get @p {place = #nn.place<@h>} : tensor<32x48xbf16>
  %q = nn.get @q {place = #nn.place<@h>} : tensor<32x48xbf16>
  %w = nn.concat %p, %q {axis = 0 : i64, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
  %size = nn.abs %w {place = #nn.place<@h>} : (tensor<64x48xbf16>) -> tensor<64x48xbf16>
  %max = nn.reduce_max %size {axes = array<i64: 0, 1>, keepdims, place = #nn.place<@h>} : (tensor<64x48xbf16>) -> tensor<1x1xbf16>
  %amax = nn.cast %max {place = #nn.place<@h>} : tensor<1x1xbf16> -> tensor<1x1xf32>
  %sw = nn.f8_step e4m3 %amax {place = #nn.place<@h>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %rw = nn.f8_round e4m3 %w, %sw {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %y = nn.matmul %rx, %rw {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  %wide = nn.get @narrow {place = #nn.place<@h>} : tensor<64x48xf32>
  %v = nn.cast %wide {place = #nn.place<@h>} : tensor<64x48xf32> -> tensor<64x48xbf16>
  %vsize = nn.abs %v {place = #nn.place<@h>} : (tensor<64x48xbf16>) -> tensor<64x48xbf16>
  %vmax = nn.reduce_max %vsize {axes = array<i64: 0, 1>, keepdims, place = #nn.place<@h>} : (tensor<64x48xbf16>) -> tensor<1x1xbf16>
  %vamax = nn.cast %vmax {place = #nn.place<@h>} : tensor<1x1xbf16> -> tensor<1x1xf32>
  %sv = nn.f8_step e4m3 %vamax {place = #nn.place<@h>} : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %rv = nn.f8_round e4m3 %v, %sv {place = #nn.place<@h>} : (tensor<64x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  %z = nn.matmul %rx, %rv {transpose_rhs, place = #nn.place<@h>} : (tensor<32x48xbf16>, tensor<64x48xbf16>) -> tensor<32x64xbf16>
  return %y, %z : tensor<32x64xbf16>, tensor<32x64xbf16>
}
