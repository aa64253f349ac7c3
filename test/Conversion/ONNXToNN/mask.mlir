// Causal masks, however an exporter computes them, become comparisons of
// indices: their size in memory does not depend on the sequence.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// The whole chain that PyTorch 2.15 exports for packed sequences: positions are
// differenced, summed up to document numbers, and gathered over index grids.
// CHECK-LABEL: func.func @packed
func.func @packed(%ids: tensor<2x4096xi64> {onnx.name = "input_ids"}, %x: tensor<2x1x4096x4096xf32>) -> tensor<2x1x4096x4096xf32> {
  %c0 = onnx.node "Constant"() {value_int = 0 : i64} : () -> tensor<i64>
  %c1 = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
  %s = onnx.node "Constant"() {value_int = 4096 : i64} : () -> tensor<i64>
  %l0 = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
  %l1 = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %lm1 = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  %ls = onnx.node "Constant"() {value_ints = array<i64: 4096>} : () -> tensor<1xi64>
  %ls1 = onnx.node "Constant"() {value_ints = array<i64: 4097>} : () -> tensor<1xi64>
  %l12 = onnx.node "Constant"() {value_ints = array<i64: 1, 2>} : () -> tensor<2xi64>
  %l01 = onnx.node "Constant"() {value_ints = array<i64: 0, 1>} : () -> tensor<2xi64>
  %l013 = onnx.node "Constant"() {value_ints = array<i64: 0, 1, 3>} : () -> tensor<3xi64>
  %l012 = onnx.node "Constant"() {value_ints = array<i64: 0, 1, 2>} : () -> tensor<3xi64>
  %l123 = onnx.node "Constant"() {value_ints = array<i64: 1, 2, 3>} : () -> tensor<3xi64>
  %shape = onnx.node "Shape"(%ids) : (tensor<2x4096xi64>) -> tensor<2xi64>
  %batch1 = onnx.node "Gather"(%shape, %c0) {axis = 0 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  %pos = onnx.node "Range"(%c0, %s, %c1) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %row = onnx.node "Unsqueeze"(%pos, %l0) : (tensor<?xi64>, tensor<1xi64>) -> tensor<1x?xi64>
  %all = onnx.node "Expand"(%row, %shape) : (tensor<1x?xi64>, tensor<2xi64>) -> tensor<?x?xi64>
  %first = onnx.node "Slice"(%all, %l0, %l1, %l1) : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
  %before = onnx.node "Sub"(%first, %c1) : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi64>
  %cat = onnx.node "Concat"(%before, %all) {axis = -1 : i64} : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %left = onnx.node "Slice"(%cat, %l0, %ls, %lm1) : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
  %right = onnx.node "Slice"(%cat, %l1, %ls1, %lm1) : (tensor<?x?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xi64>
  %diff = onnx.node "Sub"(%right, %left) : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %same = onnx.node "Equal"(%diff, %c1) : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
  %jump = onnx.node "Not"(%same) : (tensor<?x?xi1>) -> tensor<?x?xi1>
  %jumps = onnx.node "Cast"(%jump) {to = 7 : i64} : (tensor<?x?xi1>) -> tensor<?x?xi64>
  %docs = onnx.node "CumSum"(%jumps, %c1) : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi64>
  %b = onnx.node "Range"(%c0, %batch1, %c1) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %b4 = onnx.node "Unsqueeze"(%b, %l123) : (tensor<?xi64>, tensor<3xi64>) -> tensor<?x1x1x1xi64>
  %q4 = onnx.node "Unsqueeze"(%pos, %l013) : (tensor<?xi64>, tensor<3xi64>) -> tensor<1x1x?x1xi64>
  %k4 = onnx.node "Unsqueeze"(%pos, %l012) : (tensor<?xi64>, tensor<3xi64>) -> tensor<1x1x1x?xi64>
  %qmax = onnx.node "Max"(%b4, %q4) : (tensor<?x1x1x1xi64>, tensor<1x1x?x1xi64>) -> tensor<?x1x?x1xi64>
  %qshape = onnx.node "Shape"(%qmax) : (tensor<?x1x?x1xi64>) -> tensor<4xi64>
  %bq = onnx.node "Expand"(%b4, %qshape) : (tensor<?x1x1x1xi64>, tensor<4xi64>) -> tensor<?x1x?x1xi64>
  %bq5 = onnx.node "Unsqueeze"(%bq, %lm1) : (tensor<?x1x?x1xi64>, tensor<1xi64>) -> tensor<?x1x?x1x1xi64>
  %qq = onnx.node "Expand"(%q4, %qshape) : (tensor<1x1x?x1xi64>, tensor<4xi64>) -> tensor<?x1x?x1xi64>
  %qq5 = onnx.node "Unsqueeze"(%qq, %lm1) : (tensor<?x1x?x1xi64>, tensor<1xi64>) -> tensor<?x1x?x1x1xi64>
  %qgrid = onnx.node "Concat"(%bq5, %qq5) {axis = -1 : i64} : (tensor<?x1x?x1x1xi64>, tensor<?x1x?x1x1xi64>) -> tensor<?x1x?x1x2xi64>
  %kmax = onnx.node "Max"(%b4, %k4) : (tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi64>
  %kshape = onnx.node "Shape"(%kmax) : (tensor<?x1x1x?xi64>) -> tensor<4xi64>
  %bk = onnx.node "Expand"(%b4, %kshape) : (tensor<?x1x1x1xi64>, tensor<4xi64>) -> tensor<?x1x1x?xi64>
  %bk5 = onnx.node "Unsqueeze"(%bk, %lm1) : (tensor<?x1x1x?xi64>, tensor<1xi64>) -> tensor<?x1x1x?x1xi64>
  %kk = onnx.node "Expand"(%k4, %kshape) : (tensor<1x1x1x?xi64>, tensor<4xi64>) -> tensor<?x1x1x?xi64>
  %kk5 = onnx.node "Unsqueeze"(%kk, %lm1) : (tensor<?x1x1x?xi64>, tensor<1xi64>) -> tensor<?x1x1x?x1xi64>
  %kgrid = onnx.node "Concat"(%bk5, %kk5) {axis = -1 : i64} : (tensor<?x1x1x?x1xi64>, tensor<?x1x1x?x1xi64>) -> tensor<?x1x1x?x2xi64>
  %qdoc = onnx.node "GatherND"(%docs, %qgrid) : (tensor<?x?xi64>, tensor<?x1x?x1x2xi64>) -> tensor<?x1x?x1xi64>
  %kdoc = onnx.node "GatherND"(%docs, %kgrid) : (tensor<?x?xi64>, tensor<?x1x1x?x2xi64>) -> tensor<?x1x1x?xi64>
  %qpos = onnx.node "GatherND"(%all, %qgrid) : (tensor<?x?xi64>, tensor<?x1x?x1x2xi64>) -> tensor<?x1x?x1xi64>
  %kpos = onnx.node "GatherND"(%all, %kgrid) : (tensor<?x?xi64>, tensor<?x1x1x?x2xi64>) -> tensor<?x1x1x?xi64>
  %samedoc = onnx.node "Equal"(%qdoc, %kdoc) : (tensor<?x1x?x1xi64>, tensor<?x1x1x?xi64>) -> tensor<?x1x?x?xi1>
  %le = onnx.node "LessOrEqual"(%kpos, %qpos) : (tensor<?x1x1x?xi64>, tensor<?x1x?x1xi64>) -> tensor<?x1x?x?xi1>
  %visible = onnx.node "And"(%samedoc, %le) : (tensor<?x1x?x?xi1>, tensor<?x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %zero = onnx.node "Constant"() {value_float = 0.0 : f32} : () -> tensor<f32>
  %hidden = onnx.node "Constant"() {value_float = -3.40282347E+38 : f32} : () -> tensor<f32>
  %mask = onnx.node "Where"(%visible, %zero, %hidden) : (tensor<?x1x?x?xi1>, tensor<f32>, tensor<f32>) -> tensor<?x1x?x?xf32>
  // CHECK-NEXT: %[[ROW:.*]] = nn.iota {axis = 2 : i64} : () -> tensor<1x1x4096x1xi64>
  // CHECK-NEXT: %[[COLUMN:.*]] = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x4096xi64>
  // CHECK-NEXT: %[[SEEN:.*]] = nn.compare ge %[[ROW]], %[[COLUMN]] : {{.*}} -> tensor<1x1x4096x4096xi1>
  // CHECK-DAG: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-DAG: %[[HIDDEN:.*]] = nn.constant dense<-3.40282347E+38> : tensor<f32>
  // CHECK: %[[MASK:.*]] = nn.select %[[SEEN]], %[[ZERO]], %[[HIDDEN]]
  // CHECK-NEXT: nn.add %{{.*}}, %[[MASK]] : (tensor<2x1x4096x4096xf32>, tensor<1x1x4096x4096xf32>)
  %y = onnx.node "Add"(%x, %mask) : (tensor<2x1x4096x4096xf32>, tensor<?x1x?x?xf32>) -> tensor<2x1x4096x4096xf32>
  return %y : tensor<2x1x4096x4096xf32>
}

// -----

// A window of two, and more keys than queries.
// CHECK-LABEL: func.func @window
func.func @window(%x: tensor<2x4xi1>) -> tensor<2x4xi1> {
  %mask = onnx.node "Constant"() {value = dense<[[false, true, true, false], [false, false, true, true]]> : tensor<2x4xi1>} : () -> tensor<2x4xi1>
  // Row i sees columns up to i + 2, and more than i + 0.
  // CHECK: %[[TWO:.*]] = nn.constant dense<2> : tensor<i64>
  // CHECK-NEXT: %[[LAST:.*]] = nn.add %[[ROW:.*]], %[[TWO]]
  // CHECK-NEXT: %[[SEEN:.*]] = nn.compare ge %[[LAST]], %[[COLUMN:.*]] :
  // CHECK-NEXT: %[[RECENT:.*]] = nn.compare lt %[[ROW]], %[[COLUMN]] :
  // CHECK-NEXT: nn.and %[[SEEN]], %[[RECENT]]
  %y = onnx.node "And"(%mask, %x) : (tensor<2x4xi1>, tensor<2x4xi1>) -> tensor<2x4xi1>
  return %y : tensor<2x4xi1>
}

// -----

// One element off: no causal mask, so the flags stay as they are.
// CHECK-LABEL: func.func @almost
func.func @almost(%x: tensor<3x3xi1>) -> tensor<3x3xi1> {
  // CHECK: nn.constant dense<{{\[}}[true, false, false], [true, true, true], [true, true, true]]>
  %mask = onnx.node "Constant"() {value = dense<[[true, false, false], [true, true, true], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %y = onnx.node "And"(%mask, %x) : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  return %y : tensor<3x3xi1>
}

// -----

// At this length the flags would be 16 GiB: only the 2 × 131072 - 1 diagonals
// are computed, of a comparison and of a window's difference, and combined.
// CHECK-LABEL: func.func @long
func.func @long(%x: tensor<131072x131072xi1>) -> tensor<131072x131072xi1> {
  %c0 = onnx.node "Constant"() {value_int = 0 : i64} : () -> tensor<i64>
  %c1 = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
  %n = onnx.node "Constant"() {value_int = 131072 : i64} : () -> tensor<i64>
  %w = onnx.node "Constant"() {value_int = 4096 : i64} : () -> tensor<i64>
  %l1 = onnx.node "Constant"() {value_ints = array<i64: 1>} : () -> tensor<1xi64>
  %k = onnx.node "Range"(%c0, %n, %c1) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %q = onnx.node "Unsqueeze"(%k, %l1) : (tensor<?xi64>, tensor<1xi64>) -> tensor<?x1xi64>
  %past = onnx.node "LessOrEqual"(%k, %q) : (tensor<?xi64>, tensor<?x1xi64>) -> tensor<?x?xi1>
  %age = onnx.node "Sub"(%q, %k) : (tensor<?x1xi64>, tensor<?xi64>) -> tensor<?x?xi64>
  %recent = onnx.node "Less"(%age, %w) : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
  %mask = onnx.node "And"(%past, %recent) : (tensor<?x?xi1>, tensor<?x?xi1>) -> tensor<?x?xi1>
  // CHECK: %[[SEEN:.*]] = nn.compare ge %[[ROW:.*]], %[[COLUMN:.*]] : {{.*}} -> tensor<131072x131072xi1>
  // CHECK-NEXT: %[[BACK:.*]] = nn.constant dense<-4096> : tensor<i64>
  // CHECK-NEXT: %[[BEFORE:.*]] = nn.add %[[ROW]], %[[BACK]]
  // CHECK-NEXT: %[[RECENT:.*]] = nn.compare lt %[[BEFORE]], %[[COLUMN]] :
  // CHECK-NEXT: nn.and %[[SEEN]], %[[RECENT]]
  %y = onnx.node "And"(%mask, %x) : (tensor<?x?xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  return %y : tensor<131072x131072xi1>
}

// -----

// The band of Trilu, and one that is no causal mask: it keeps its flags.
// CHECK-LABEL: func.func @band
func.func @band(%x: tensor<3x4xi1>, %z: tensor<3x3xi1>) -> (tensor<3x4xi1>, tensor<3x3xi1>) {
  %ones = onnx.node "Constant"() {value = dense<true> : tensor<3x4xi1>} : () -> tensor<3x4xi1>
  %k = onnx.node "Constant"() {value_int = 1 : i64} : () -> tensor<i64>
  %band = onnx.node "Trilu"(%ones, %k) {upper = 0 : i64} : (tensor<3x4xi1>, tensor<i64>) -> tensor<3x4xi1>
  // CHECK: nn.compare ge {{.*}} -> tensor<3x4xi1>
  %y = onnx.node "And"(%band, %x) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
  %i = onnx.node "Constant"() {value = dense<[0, 1, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %c = onnx.node "Constant"() {value = dense<[[0], [1], [2]]> : tensor<3x1xi64>} : () -> tensor<3x1xi64>
  %off = onnx.node "Less"(%c, %i) : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi1>
  %twice = onnx.node "Add"(%i, %i) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %steep = onnx.node "Less"(%c, %twice) : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi1>
  %both = onnx.node "Xor"(%off, %steep) : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  // CHECK: nn.constant dense<{{\[}}[false, false, false], [false, true, false], [false, false, true]]>
  %v = onnx.node "And"(%both, %z) : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  return %y, %v : tensor<3x4xi1>, tensor<3x3xi1>
}
