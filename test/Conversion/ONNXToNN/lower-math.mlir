// Activations, reductions, running sums and rearrangements as nn ops.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// The side that is not taken reads zero, so that neither it nor its gradient
// overflows; at zero the gradient is that of e^x - 1.
// CHECK-LABEL: func.func @elu
func.func @elu(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
  // CHECK: %[[POSITIVE:.*]] = nn.compare gt %[[X:.*]], %[[ZERO]]
  // CHECK: %[[LOW:.*]] = nn.select %[[POSITIVE]], %{{.*}}, %[[X]]
  // CHECK: %[[SCALED:.*]] = nn.mul %[[LOW]]
  // CHECK: nn.expm1 %[[SCALED]]
  // CHECK: nn.select %[[POSITIVE]]
  %0 = onnx.node "Elu"(%x) {alpha = 2.0 : f32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// Half of a binary cross-entropy, whose gradient is 1 / max(x, 1e-12): of a sum
// whose other part is zero.
// CHECK-LABEL: func.func @bounded_log
func.func @bounded_log(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[LOG:.*]] = nn.log %[[X:.*]] :
  // CHECK: %[[LEAST:.*]] = nn.max %[[X]], %{{.*}} :
  // CHECK: %[[FIXED:.*]] = nn.stop_gradient %[[LEAST]]
  // CHECK: %[[SLOPE:.*]] = nn.div %[[X]], %[[FIXED]]
  // CHECK-DAG: %[[BOUNDED:.*]] = nn.max %[[LOG]]
  // CHECK-DAG: %[[VALUE:.*]] = nn.stop_gradient %[[BOUNDED]]
  // CHECK-DAG: %[[ITSELF:.*]] = nn.stop_gradient %[[SLOPE]]
  // CHECK-DAG: %[[ZERO:.*]] = nn.sub %[[SLOPE]], %[[ITSELF]]
  // CHECK: nn.add %[[VALUE]], %[[ZERO]]
  %bound = onnx.node "Constant"() {value = dense<-1.000000e+02> : tensor<f32>} : () -> tensor<f32>
  %log = onnx.node "Log"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = onnx.node "Max"(%log, %bound) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What lies on a bound that is a number has no gradient.
// CHECK-LABEL: func.func @clip(
func.func @clip(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[LOW:.*]] = nn.constant dense<-1.000000e+00> : tensor<f32>
  // CHECK: %[[BELOW:.*]] = nn.compare le %[[X:.*]], %[[LOW]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  // CHECK: %[[Y:.*]] = nn.select %[[BELOW]], %[[LOW]], %[[X]]
  // CHECK: %[[HIGH:.*]] = nn.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: %[[ABOVE:.*]] = nn.compare ge %[[Y]], %[[HIGH]] :
  // CHECK: nn.select %[[ABOVE]], %[[HIGH]], %[[Y]]
  %low = onnx.node "Constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  %high = onnx.node "Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.node "Clip"(%x, %low, %high) : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Bounds that are tensors share it.
// CHECK-LABEL: func.func @clip_by_tensors
func.func @clip_by_tensors(%x: tensor<4xi64>, %low: tensor<i64>, %high: tensor<i64>) -> (tensor<4xi64>, tensor<4xi64>) {
  // CHECK: %[[Y:.*]] = nn.max %[[X:.*]], %{{.*}} : (tensor<4xi64>, tensor<i64>)
  // CHECK: nn.min %[[Y]], %{{.*}} : (tensor<4xi64>, tensor<i64>)
  %0 = onnx.node "Clip"(%x, %low, %high) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  // CHECK: nn.max %[[X]], %{{.*}} : (tensor<4xi64>, tensor<i64>)
  %number = onnx.node "Constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %1 = onnx.node "Clip"(%x, %number) {ties} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %0, %1 : tensor<4xi64>, tensor<4xi64>
}

// -----

// A Max that is a clamp by a number is one.
// CHECK-LABEL: func.func @clamp_by_max
func.func @clamp_by_max(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = onnx.node "Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: nn.compare le
  // CHECK: nn.select
  %0 = onnx.node "Max"(%x, %zero) {cuts} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: nn.min
  %1 = onnx.node "Min"(%x, %y) {cuts} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// torch.max(x, dim) gives the gradient to the first, torch.amax to all.
// CHECK-LABEL: func.func @maxima
func.func @maxima(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %axis = onnx.node "Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: nn.reduce_max %{{.*}} {axes = array<i64: 1>, nn.first}
  %0 = onnx.node "ReduceMax"(%x, %axis) {first, keepdims = 0 : i64} : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<3xf32>
  // CHECK: nn.reduce_max %{{.*}} {axes = array<i64: 1>, nn.first}
  %1 = onnx.node "ReduceMin"(%x, %axis) {first, keepdims = 0 : i64} : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<3xf32>
  // CHECK: nn.reduce_max %{{.*}} {axes = array<i64: 1>} :
  %2 = onnx.node "ReduceMax"(%x, %axis) {keepdims = 0 : i64} : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Bounds that were attributes are f32.
// CHECK-LABEL: func.func @clip_f16
func.func @clip_f16(%x: tensor<4xf16>, %low: tensor<f32>) -> tensor<4xf16> {
  // CHECK: %[[LOW:.*]] = nn.cast %{{.*}} : tensor<f32> -> tensor<f16>
  // CHECK: nn.max %{{.*}}, %[[LOW]] : {{.*}} -> tensor<4xf16>
  %0 = onnx.node "Clip"(%x, %low) : (tensor<4xf16>, tensor<f32>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// CHECK-LABEL: func.func @integers
func.func @integers(%x: tensor<2x4xi64>, %y: tensor<4xi64>) -> tensor<2x4xi64> {
  // CHECK: nn.quotient
  %0 = onnx.node "Div"(%x, %y) : (tensor<2x4xi64>, tensor<4xi64>) -> tensor<2x4xi64>
  // CHECK: nn.remainder %{{.*}} {floor}
  %1 = onnx.node "Mod"(%0, %y) : (tensor<2x4xi64>, tensor<4xi64>) -> tensor<2x4xi64>
  // CHECK-NOT: floor
  // CHECK: nn.remainder
  %2 = onnx.node "Mod"(%1, %y) {fmod = 1 : i64} : (tensor<2x4xi64>, tensor<4xi64>) -> tensor<2x4xi64>
  return %2 : tensor<2x4xi64>
}

// -----

// Three columns: halves of one, and the odd one joined at the end.
// CHECK-LABEL: func.func @reduce_integers
func.func @reduce_integers(%x: tensor<2x3xi64>) -> tensor<2xi64> {
  %axis = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  // CHECK: %[[ODD:.*]] = nn.slice %[[X:.*]] {offsets = array<i64: 0, 2>, sizes = array<i64: 2, 1>}
  // CHECK: %[[A:.*]] = nn.slice %[[X]] {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 1>}
  // CHECK: %[[B:.*]] = nn.slice %[[X]] {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 1>}
  // CHECK: %[[HALVES:.*]] = nn.max %[[A]], %[[B]]
  // CHECK: %[[ALL:.*]] = nn.max %[[HALVES]], %[[ODD]]
  // CHECK: nn.reshape %[[ALL]] : tensor<2x1xi64> -> tensor<2xi64>
  %0 = onnx.node "ReduceMax"(%x, %axis) {keepdims = 0 : i64} : (tensor<2x3xi64>, tensor<1xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

// CHECK-LABEL: func.func @log_sum_exp
func.func @log_sum_exp(%x: tensor<2x3x4xf32>) -> tensor<2x1x4xf32> {
  %axis = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  // CHECK: %[[T:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 1>}
  // CHECK: %[[R:.*]] = nn.log_sum_exp %[[T]] : (tensor<2x4x3xf32>) -> tensor<2x4x1xf32>
  // CHECK: nn.reshape %[[R]] : tensor<2x4x1xf32> -> tensor<2x1x4xf32>
  %0 = onnx.node "ReduceLogSumExp"(%x, %axis) : (tensor<2x3x4xf32>, tensor<1xi64>) -> tensor<2x1x4xf32>
  return %0 : tensor<2x1x4xf32>
}

// -----

// A sum is one op; of a product steps of one and two places reach four.
// CHECK-LABEL: func.func @running
func.func @running(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %axis = onnx.node "Constant"() {value_int = -1 : i64} : () -> tensor<i64>
  // CHECK: nn.cumsum %{{.*}} {axis = 1 : i64, exclusive, reverse} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %0 = onnx.node "CumSum"(%x, %axis) {exclusive = 1 : i64, reverse = 1 : i64} : (tensor<1x4xf32>, tensor<i64>) -> tensor<1x4xf32>
  // CHECK: nn.mul
  // CHECK: nn.mul
  // CHECK-NOT: nn.mul
  %1 = onnx.node "CumProd"(%x, %axis) : (tensor<1x4xf32>, tensor<i64>) -> tensor<1x4xf32>
  return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// Every third element from 1 on, twice: the second of each group of three.
// CHECK-LABEL: func.func @steps
func.func @steps(%x: tensor<6xf32>) -> (tensor<2xf32>, tensor<4xf32>) {
  %one = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %end = onnx.node "Constant"() {value_ints = array<i64: 9>} : () -> tensor<1xi64>
  %zero = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
  %three = onnx.node "Constant"() {value_ints = array<i64: 3>} : () -> tensor<1xi64>
  // CHECK: %[[GROUPS:.*]] = nn.reshape %{{.*}} : tensor<6xf32> -> tensor<2x3xf32>
  // CHECK: nn.slice %[[GROUPS]] {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 1>}
  %0 = onnx.node "Slice"(%x, %one, %end, %zero, %three) : (tensor<6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>
  // Backwards: pairs swapped, then the pairs, which are wider elements.
  %last = onnx.node "Constant"() {value_ints = array<i64: 3>} : () -> tensor<1xi64>
  %before = onnx.node "Constant"() {value_ints = array<i64: -9>} : () -> tensor<1xi64>
  %back = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  // CHECK: nn.reshape %{{.*}} : tensor<1x4x1xf32> -> tensor<1x2x2x1xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} {axis = 2 : i64} : (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x2x1xf32>
  // CHECK: nn.reshape %{{.*}} : tensor<1x2x2x1xf32> -> tensor<1x2x2xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} {axis = 2 : i64} : (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x2x2xf32>
  %1 = onnx.node "Slice"(%x, %last, %before, %zero, %back) : (tensor<6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xf32>
  return %0, %1 : tensor<2xf32>, tensor<4xf32>
}

// -----

// Reflected: down to the border, the tensor, and one more.
// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<3xf32>) -> tensor<6xf32> {
  %pads = onnx.node "Constant"() {value_ints = array<i64: 2, 1>} : () -> tensor<2xi64>
  // CHECK: nn.concat {{.*}} {axis = 0 : i64} : (tensor<3xf32>, tensor<2xf32>, tensor<1xf32>) -> tensor<6xf32>
  %0 = onnx.node "Pad"(%x, %pads) {mode = "reflect"} : (tensor<3xf32>, tensor<2xi64>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// CHECK-LABEL: func.func @einsum
func.func @einsum(%x: tensor<2x5x3xf32>, %y: tensor<2x4x3xf32>, %z: tensor<3x3xf32>) -> (tensor<2x5x4xf32>, tensor<f32>) {
  // CHECK: %[[Y:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.matmul %{{.*}}, %[[Y]] : (tensor<2x5x3xf32>, tensor<2x3x4xf32>) -> tensor<2x5x4xf32>
  %0 = onnx.node "Einsum"(%x, %y) {equation = "b i k, b j k -> b i j"} : (tensor<2x5x3xf32>, tensor<2x4x3xf32>) -> tensor<2x5x4xf32>
  // The trace: the diagonal is a column of rows that are one longer.
  // CHECK: nn.pad %{{.*}} {high = array<i64: 3>, low = array<i64: 0>} : (tensor<9xf32>) -> tensor<12xf32>
  // CHECK: nn.reshape %{{.*}} : tensor<12xf32> -> tensor<3x4xf32>
  // CHECK: nn.slice %{{.*}} {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 1>}
  // CHECK: nn.reduce_sum
  %1 = onnx.node "Einsum"(%z) {equation = "ii->"} : (tensor<3x3xf32>) -> tensor<f32>
  return %0, %1 : tensor<2x5x4xf32>, tensor<f32>
}

// -----

// Without an output there is no letter that stands twice, in one term either.
// CHECK-LABEL: func.func @einsum_trace
func.func @einsum_trace(%z: tensor<3x3xf32>) -> tensor<f32> {
  // CHECK: %[[SUM:.*]] = nn.reduce_sum {{.*}} -> tensor<f32>
  // CHECK: return %[[SUM]]
  %0 = onnx.node "Einsum"(%z) {equation = "ii"} : (tensor<3x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// With class weights the mean is over the weights of the labels; an ignored
// label has none, whatever its log-probability.
// CHECK-LABEL: func.func @likelihood
func.func @likelihood(%x: tensor<4x5xf32>, %l: tensor<4xi64>, %w: tensor<5xf32>) -> tensor<f32> {
  // CHECK: %[[CLASSES:.*]] = nn.iota {axis = 0 : i64} : () -> tensor<5xi64>
  // CHECK: %[[IS:.*]] = nn.compare eq %[[CLASSES]], %{{.*}} : (tensor<5xi64>, tensor<4x1xi64>) -> tensor<4x5xi1>
  // CHECK: nn.select %[[IS]], %{{.*}} : (tensor<4x5xi1>, tensor<5xf32>, tensor<f32>) -> tensor<4x5xf32>
  // CHECK: nn.compare eq %{{.*}} : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi1>
  // CHECK: nn.div %{{.*}} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %0 = onnx.node "NegativeLogLikelihoodLoss"(%x, %l, %w) {ignore_index = 0 : i64} : (tensor<4x5xf32>, tensor<4xi64>, tensor<5xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
