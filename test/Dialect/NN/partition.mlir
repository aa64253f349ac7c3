// RUN: shardonnx-opt %s -nn-partition=tensor=2 -split-input-file -verify-diagnostics | FileCheck %s

// A block: query, key and value by heads, the products behind them by rows. Of
// the sums behind these each rank keeps its tokens, here a sequence, computes
// norm and residual for them alone, and gathers all where columns are split.

// CHECK: module attributes {nn.mesh = {context = 1 : i64, tensor = 2 : i64}
// CHECK-SAME: {nodes = {{.*}}, what = "products split by columns"}
// CHECK-SAME: {nodes = {{.*}}, what = "products split by rows"}
// CHECK-SAME: {nodes = {{.*}}, what = "sums of which a rank keeps its tokens"}
// CHECK-SAME: {nodes = {{.*}}, what = "what reads the tokens of all ranks", why = "it is only computed whole"}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>
func.func @forward(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  // CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm
  %n = nn.get @n : tensor<8xf32>
  %norm:2 = nn.rms_norm %x, %n {epsilon = 1.0e-5 : f32} : (tensor<2x3x8xf32>, tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x1xf32>)
  // CHECK: nn.get @q : tensor<4x8xf32>
  // CHECK: %[[V:.*]] = nn.vary %[[N]] {axis = "tensor", parts = 2 : i64, place = #nn.place<@h.0>}
  // CHECK-NOT: nn.vary
  // CHECK: nn.reshape %[[V]]
  %rows = nn.reshape %norm#0 {place = #nn.place<@h.0>} : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %q = nn.get @q : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<6x4xf32>
  %qp = nn.matmul %rows, %q {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  // CHECK: nn.reshape {{.*}} : tensor<6x4xf32> -> tensor<2x3x2x2xf32>
  %qh = nn.reshape %qp {place = #nn.place<@h.0>} : tensor<6x8xf32> -> tensor<2x3x4x2xf32>
  // Stored [in, out], with a bias: columns too.
  // CHECK: nn.get @k : tensor<8x2xf32>
  %k = nn.get @k : tensor<8x4xf32>
  %kp = nn.matmul %rows, %k {place = #nn.place<@h.0>} : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  // CHECK: nn.get @kb : tensor<2xf32>
  %kb = nn.get @kb : tensor<4xf32>
  %ks = nn.add %kp, %kb {place = #nn.place<@h.0>} : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %kh = nn.reshape %ks {place = #nn.place<@h.0>} : tensor<6x4xf32> -> tensor<2x3x2x2xf32>
  %v = nn.get @v : tensor<4x8xf32>
  %vp = nn.matmul %rows, %v {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x8xf32>, tensor<4x8xf32>) -> tensor<6x4xf32>
  %vh = nn.reshape %vp {place = #nn.place<@h.0>} : tensor<6x4xf32> -> tensor<2x3x2x2xf32>
  // Each head's sink is where the head is.
  // CHECK: nn.get @sink : tensor<2xf32>
  %sink = nn.get @sink : tensor<4xf32>
  // CHECK: nn.attention {{.*}} : (tensor<2x3x2x2xf32>, tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>, tensor<2xf32>) -> (tensor<2x3x2x2xf32>, tensor<2x2x3xf32>)
  %a:2 = nn.attention %qh, %kh, %vh sink(%sink) {place = #nn.place<@h.0>, scale = 1.0 : f32, causal} : (tensor<2x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>, tensor<4xf32>) -> (tensor<2x3x4x2xf32>, tensor<2x4x3xf32>)
  %ar = nn.reshape %a#0 {place = #nn.place<@h.0>} : tensor<2x3x4x2xf32> -> tensor<6x8xf32>
  // CHECK: nn.get @o : tensor<8x4xf32>
  %o = nn.get @o : tensor<8x8xf32>
  // CHECK: %[[PART:.*]] = nn.matmul {{.*}} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  // CHECK: %[[SUM:.*]] = nn.reduce_scatter %[[PART]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<@h.0>, sections = array<i64: 6>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  %op = nn.matmul %ar, %o {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  // Each rank has a summand of the gradient of the bias.
  // CHECK: %[[OB:.*]] = nn.get @ob : tensor<8xf32>
  // CHECK: %[[B:.*]] = nn.vary %[[OB]]
  %ob = nn.get @ob : tensor<8xf32>
  // CHECK: nn.add %[[SUM]], %[[B]]
  %os = nn.add %op, %ob {place = #nn.place<@h.0>} : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  %or = nn.reshape %os {place = #nn.place<@h.0>} : tensor<6x8xf32> -> tensor<2x3x8xf32>
  // CHECK: %[[MINE:.*]] = nn.all_slice %[[X]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<@h.0>, sections = array<i64: 2>}
  // CHECK: %[[R:.*]] = nn.add %[[MINE]], %{{.*}} : (tensor<1x3x8xf32>, tensor<1x3x8xf32>)
  %r = nn.add %x, %or {place = #nn.place<@h.0>} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %norm2:2 = nn.rms_norm %r, %n {epsilon = 1.0e-5 : f32} : (tensor<2x3x8xf32>, tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x1xf32>)
  // CHECK: nn.vary
  // CHECK: %[[N2:.*]], %{{.*}} = nn.rms_norm %[[R]]
  // CHECK: %[[ALL:.*]] = nn.all_gather %[[N2]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<@h.0>, sections = array<i64: 2>, varies}
  // CHECK: nn.reshape %[[ALL]]
  %rows2 = nn.reshape %norm2#0 {place = #nn.place<@h.0>} : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %gate = nn.get @gate : tensor<16x8xf32>
  %g = nn.matmul %rows2, %gate {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x8xf32>, tensor<16x8xf32>) -> tensor<6x16xf32>
  %up = nn.get @up : tensor<16x8xf32>
  // CHECK-NOT: nn.all_gather
  %u = nn.matmul %rows2, %up {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x8xf32>, tensor<16x8xf32>) -> tensor<6x16xf32>
  // CHECK: nn.silu {{.*}} tensor<6x8xf32>
  %s = nn.silu %g {place = #nn.place<@h.0>} : (tensor<6x16xf32>) -> tensor<6x16xf32>
  %m = nn.mul %s, %u {place = #nn.place<@h.0>} : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %down = nn.get @down : tensor<8x16xf32>
  // CHECK: nn.matmul
  // CHECK-NEXT: nn.reduce_scatter
  %d = nn.matmul %m, %down {place = #nn.place<@h.0>, transpose_rhs} : (tensor<6x16xf32>, tensor<8x16xf32>) -> tensor<6x8xf32>
  %dr = nn.reshape %d {place = #nn.place<@h.0>} : tensor<6x8xf32> -> tensor<2x3x8xf32>
  // CHECK: %[[LAST:.*]] = nn.add %[[R]]
  // CHECK-NEXT: %[[Y:.*]] = nn.all_gather %[[LAST]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 2>} : (tensor<1x3x8xf32>) -> tensor<2x3x8xf32>
  // CHECK-NEXT: return %[[Y]]
  %y = nn.add %r, %dr {place = #nn.place<@h.0>} : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}
// CHECK: nn.parameter @n : tensor<8xf32> trainable {onnx_name = "n"}
nn.parameter @n : tensor<8xf32> trainable {onnx_name = "n"}
// CHECK: nn.parameter @q : tensor<4x8xf32> trainable {nn.split = {axis = "tensor", dim = 0 : i64, sections = array<i64: 8>}
nn.parameter @q : tensor<8x8xf32> trainable {onnx_name = "q"}
// CHECK: nn.parameter @k : tensor<8x2xf32> trainable {nn.split = {axis = "tensor", dim = 1 : i64, sections = array<i64: 4>}
nn.parameter @k : tensor<8x4xf32> trainable {onnx_name = "k"}
nn.parameter @kb : tensor<4xf32> trainable {onnx_name = "kb"}
nn.parameter @sink : tensor<4xf32> trainable {onnx_name = "sink"}
nn.parameter @v : tensor<4x8xf32> trainable {onnx_name = "v"}
// CHECK: nn.parameter @o : tensor<8x4xf32> trainable {nn.split = {axis = "tensor", dim = 1 : i64, sections = array<i64: 8>}
nn.parameter @o : tensor<8x8xf32> trainable {onnx_name = "o"}
// CHECK: nn.parameter @ob : tensor<8xf32> trainable {onnx_name = "ob"}
nn.parameter @ob : tensor<8xf32> trainable {onnx_name = "ob"}
nn.parameter @gate : tensor<16x8xf32> trainable {onnx_name = "gate"}
nn.parameter @up : tensor<16x8xf32> trainable {onnx_name = "up"}
nn.parameter @down : tensor<8x16xf32> trainable {onnx_name = "down"}

// -----

// Query, key and value of one projection are three sections, whether they are
// cut from its columns or are an axis of their own.

// CHECK-LABEL: func.func @packed
func.func @packed(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %w = nn.get @w : tensor<8x24xf32>
  // CHECK: nn.matmul {{.*}} : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x24xf32>) -> tensor<6x24xf32>
  // CHECK: nn.get @b : tensor<12xf32>
  %b = nn.get @b : tensor<24xf32>
  %s = nn.add %p, %b : (tensor<6x24xf32>, tensor<24xf32>) -> tensor<6x24xf32>
  // CHECK: nn.slice {{.*}} {offsets = array<i64: 0, 4>, sizes = array<i64: 6, 4>}
  %q = nn.slice %s {offsets = array<i64: 0, 8>, sizes = array<i64: 6, 8>} : (tensor<6x24xf32>) -> tensor<6x8xf32>
  %t = nn.reshape %s : tensor<6x24xf32> -> tensor<2x3x3x4x2xf32>
  %k = nn.slice %t {offsets = array<i64: 0, 0, 1, 0, 0>, sizes = array<i64: 2, 3, 1, 4, 2>} : (tensor<2x3x3x4x2xf32>) -> tensor<2x3x1x4x2xf32>
  %kr = nn.reshape %k : tensor<2x3x1x4x2xf32> -> tensor<6x8xf32>
  %m = nn.mul %q, %kr : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %o = nn.get @o : tensor<8x8xf32>
  // Nothing but the end reads the sum: it is that of all ranks.
  // CHECK: nn.all_reduce
  %y = nn.matmul %m, %o : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}
// CHECK: nn.parameter @w : tensor<8x12xf32> trainable {nn.split = {axis = "tensor", dim = 1 : i64, sections = array<i64: 8, 8, 8>}
nn.parameter @w : tensor<8x24xf32> trainable {onnx_name = "w"}
// CHECK: nn.parameter @b : tensor<12xf32> trainable {nn.split = {axis = "tensor", dim = 0 : i64, sections = array<i64: 8, 8, 8>}
nn.parameter @b : tensor<24xf32> trainable {onnx_name = "b"}
nn.parameter @o : tensor<8x8xf32> trainable {onnx_name = "o"}

// -----

// A norm of a head, and a table that other heads read too: what is whole and
// trained varies, what has a row for each head is sliced, and gathered for its
// gradient. A product of which a norm reads whole rows stays whole, and is told.

// CHECK: module attributes
// CHECK-SAME: {nodes = {{.*}}, what = "products that every rank of the tensor axis computes", why = "nn.rms_norm: it reads whole rows"}
// CHECK-LABEL: func.func @beside
func.func @beside(%x: tensor<6x8xf32>, %bias: tensor<4x1xf32>) -> (tensor<6x8xf32>, tensor<4x1xf32>) {
  // CHECK: nn.matmul {{.*}}tensor<8x8xf32>) -> tensor<6x8xf32>
  %w = nn.get @w : tensor<8x8xf32>
  %p = nn.matmul %x, %w {place = #nn.place<@h.0>} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %all = nn.get @all : tensor<8xf32>
  %n:2 = nn.rms_norm %p, %all {epsilon = 1.0e-5 : f32} : (tensor<6x8xf32>, tensor<8xf32>) -> (tensor<6x8xf32>, tensor<6x1xf32>)
  %u = nn.get @u : tensor<8x8xf32>
  %up = nn.matmul %n#0, %u : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %h = nn.reshape %up : tensor<6x8xf32> -> tensor<6x4x2xf32>
  // CHECK: %[[HEAD:.*]] = nn.get @head
  %head = nn.get @head : tensor<2xf32>
  // CHECK: %[[VARIES:.*]] = nn.vary %[[HEAD]]
  // CHECK: nn.rms_norm %{{.*}}, %[[VARIES]]
  %hn:2 = nn.rms_norm %h, %head {epsilon = 1.0e-5 : f32} : (tensor<6x4x2xf32>, tensor<2xf32>) -> (tensor<6x4x2xf32>, tensor<6x4x1xf32>)
  // CHECK: %[[T:.*]] = nn.get @table : tensor<4x1xf32>
  %table = nn.get @table : tensor<4x1xf32>
  %other = nn.add %table, %bias : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  // CHECK: %[[SLICE:.*]] = nn.all_slice %[[T]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<4x1xf32>) -> tensor<2x1xf32>
  // CHECK: nn.add %{{.*}}, %[[SLICE]]
  %sum = nn.add %hn#0, %table : (tensor<6x4x2xf32>, tensor<4x1xf32>) -> tensor<6x4x2xf32>
  %flat = nn.reshape %sum : tensor<6x4x2xf32> -> tensor<6x8xf32>
  %o = nn.get @o : tensor<8x8xf32>
  %y = nn.matmul %flat, %o : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  return %y, %other : tensor<6x8xf32>, tensor<4x1xf32>
}
// CHECK: nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @all : tensor<8xf32> trainable {onnx_name = "all"}
nn.parameter @u : tensor<8x8xf32> trainable {onnx_name = "u"}
nn.parameter @head : tensor<2xf32> trainable {onnx_name = "head"}
// CHECK: nn.parameter @table : tensor<4x1xf32> trainable {onnx_name = "table"}
nn.parameter @table : tensor<4x1xf32> trainable {onnx_name = "table"}
nn.parameter @o : tensor<8x8xf32> trainable {onnx_name = "o"}

// -----

// Tokens of three sequences are as many sections. A reduction over tokens reads
// all of them, and so does a linear layer that is whole.

// CHECK: module attributes {{.*}} why = "it reduces the dimension that is split"
// CHECK-LABEL: func.func @sequences
// CHECK: %[[SUM:.*]] = nn.reduce_scatter {{.*}} {axis = "tensor", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 2, 2, 2>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[SUM]] : tensor<3x8xf32> -> tensor<3x1x8xf32>
// CHECK: %[[TWICE:.*]] = nn.add %[[ROWS]], %{{.*}} : (tensor<3x1x8xf32>, tensor<3x1x8xf32>) -> tensor<3x1x8xf32>
// CHECK: %[[ALL:.*]] = nn.all_gather %[[TWICE]] {axis = "tensor", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 2>} : (tensor<3x1x8xf32>) -> tensor<3x2x8xf32>
// CHECK: nn.reduce_sum %[[ALL]]
// CHECK: nn.matmul %{{.*}} : (tensor<6x8xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
func.func @sequences(%x: tensor<3x2x8xf32>) -> (tensor<8xf32>, tensor<6x3xf32>) {
  %rows = nn.reshape %x : tensor<3x2x8xf32> -> tensor<6x8xf32>
  %w = nn.get @w : tensor<8x4xf32>
  %h = nn.matmul %rows, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %o = nn.get @o : tensor<4x8xf32>
  %p = nn.matmul %h, %o : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %y = nn.reshape %p : tensor<6x8xf32> -> tensor<3x2x8xf32>
  %z = nn.add %y, %x : (tensor<3x2x8xf32>, tensor<3x2x8xf32>) -> tensor<3x2x8xf32>
  %sum = nn.reduce_sum %z {axes = array<i64: 0, 1>} : (tensor<3x2x8xf32>) -> tensor<8xf32>
  %again = nn.reshape %z : tensor<3x2x8xf32> -> tensor<6x8xf32>
  %odd = nn.get @odd : tensor<8x3xf32>
  %last = nn.matmul %again, %odd : (tensor<6x8xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
  return %sum, %last : tensor<8xf32>, tensor<6x3xf32>
}
nn.parameter @w : tensor<8x4xf32> trainable {onnx_name = "w"}
nn.parameter @o : tensor<4x8xf32> trainable {onnx_name = "o"}
nn.parameter @odd : tensor<8x3xf32> trainable {onnx_name = "few"}

// -----

// The ranks do not divide 5 tokens: the sum is that of all of them.

// CHECK-LABEL: func.func @undivided
// CHECK: nn.all_reduce
// CHECK-NOT: nn.all_slice
func.func @undivided(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %w = nn.get @w : tensor<8x4xf32>
  %h = nn.matmul %x, %w : (tensor<5x8xf32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  %o = nn.get @o : tensor<4x8xf32>
  %p = nn.matmul %h, %o : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %y = nn.add %p, %x : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}
nn.parameter @w : tensor<8x4xf32> trainable {onnx_name = "w"}
nn.parameter @o : tensor<4x8xf32> trainable {onnx_name = "o"}

// -----

// A vocabulary that a lookup of tokens and the head read: each finds some rows,
// of the sum of which a rank keeps its tokens, and the loss is computed by all
// of them. One parameter is both.

// CHECK: module attributes {{.*}} what = "vocabularies split by words"
// CHECK-LABEL: func.func @vocabulary
// CHECK-SAME: %[[IDS:.*]]: tensor<1x4xi64> {{.*}}, %[[LABELS:.*]]: tensor<4xi64>
// CHECK: %[[T:.*]] = nn.get @table : tensor<5x8xf32>
// CHECK: %[[FOUND:.*]] = nn.embedding_part %[[T]], %[[IDS]] {axis = "tensor", parts = 2 : i64} : (tensor<5x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
// CHECK: %[[MINE:.*]] = nn.reduce_scatter %[[FOUND]] {axis = "tensor", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4>}
// CHECK: %[[ALL:.*]] = nn.all_gather %[[MINE]] {{.*}}, varies}
// CHECK: %[[ROWS:.*]] = nn.reshape %[[ALL]]
// CHECK: nn.linear_cross_entropy_part %[[ROWS]], %[[T]], %[[LABELS]] {axis = "tensor", parts = 2 : i64, transpose_weight} : (tensor<4x8xf32>, tensor<5x8xf32>, tensor<4xi64>) -> tensor<f32>
// CHECK: nn.parameter @table : tensor<5x8xf32> trainable {nn.split = {axis = "tensor", dim = 0 : i64, sections = array<i64: 10>}
func.func @vocabulary(%ids: tensor<1x4xi64> {nn.name = "input_ids"}, %labels: tensor<4xi64>) -> tensor<f32> {
  %t = nn.get @table : tensor<10x8xf32>
  %x = nn.embedding %t, %ids : (tensor<10x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %rows = nn.reshape %x : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %sum = nn.linear_cross_entropy %rows, %t, %labels {transpose_weight} : (tensor<4x8xf32>, tensor<10x8xf32>, tensor<4xi64>) -> tensor<f32>
  return %sum : tensor<f32>
}
nn.parameter @table : tensor<10x8xf32> trainable {onnx_name = "table"}

// -----

// Of 9 words the second rank has 4, and a row behind them that is none. One reader
// has the table as it lies, the other its transpose.

// CHECK-LABEL: func.func @uneven
// CHECK: %[[T:.*]] = nn.get @table : tensor<5x8xf32>
// CHECK: nn.embedding_part %[[T]], %{{.*}} {axis = "tensor", padding = 1 : i64, parts = 2 : i64} : (tensor<5x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
// CHECK: %[[W:.*]] = nn.transpose %[[T]] {{.*}} : (tensor<5x8xf32>) -> tensor<8x5xf32>
// CHECK: nn.linear_cross_entropy_part %{{.*}}, %[[W]], %{{.*}} {axis = "tensor", padding = 1 : i64, parts = 2 : i64} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4xi64>) -> tensor<f32>
// CHECK-NOT: nn.all_slice
// CHECK: nn.parameter @table : tensor<5x8xf32> trainable {nn.split = {axis = "tensor", dim = 0 : i64, sections = array<i64: 9>}
func.func @uneven(%ids: tensor<1x4xi64> {nn.name = "input_ids"}, %labels: tensor<4xi64>) -> tensor<f32> {
  %t = nn.get @table : tensor<9x8xf32>
  %x = nn.embedding %t, %ids : (tensor<9x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %rows = nn.reshape %x : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %w = nn.transpose %t {permutation = array<i64: 1, 0>} : (tensor<9x8xf32>) -> tensor<8x9xf32>
  %sum = nn.linear_cross_entropy %rows, %w, %labels : (tensor<4x8xf32>, tensor<8x9xf32>, tensor<4xi64>) -> tensor<f32>
  return %sum : tensor<f32>
}
nn.parameter @table : tensor<9x8xf32> trainable {onnx_name = "table"}

// -----

// A table that something else reads whole is whole, and so is a vocabulary of
// which a rank had no word, or one of positions.

// CHECK: module attributes
// CHECK-SAME: what = "vocabularies that every rank of the tensor axis has", why = "the ranks do not divide its 1 words"
// CHECK-SAME: what = "vocabularies that every rank of the tensor axis has", why = "nn.add reads its table whole"
// CHECK-LABEL: func.func @whole_vocabularies
// CHECK: nn.embedding %
// CHECK: nn.embedding %
// CHECK: nn.embedding %
// CHECK: nn.linear_cross_entropy %
func.func @whole_vocabularies(%ids: tensor<1x4xi64> {nn.name = "input_ids"}, %at: tensor<1x4xi64> {nn.name = "position_ids"}, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<10x8xf32>) {
  %t = nn.get @table : tensor<10x8xf32>
  %x = nn.embedding %t, %ids : (tensor<10x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %p = nn.get @positions : tensor<4x8xf32>
  %y = nn.embedding %p, %at : (tensor<4x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %o = nn.get @few : tensor<1x8xf32>
  %w = nn.embedding %o, %ids : (tensor<1x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %s = nn.add %x, %y : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %z = nn.add %s, %w : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %rows = nn.reshape %z : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %sum = nn.linear_cross_entropy %rows, %o, %labels {transpose_weight} : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<4xi64>) -> tensor<f32>
  %twice = nn.add %t, %t : (tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %sum, %twice : tensor<f32>, tensor<10x8xf32>
}
nn.parameter @table : tensor<10x8xf32> trainable {onnx_name = "table"}
nn.parameter @positions : tensor<4x8xf32> trainable {onnx_name = "positions"}
nn.parameter @few : tensor<1x8xf32> trainable {onnx_name = "few"}

// -----

// A loss of columns is a sum, too, but of no tokens.

// CHECK-LABEL: func.func @error
// CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<6x4xf32>
// CHECK: %[[TARGET:.*]] = nn.all_slice %arg1
// CHECK: %[[PART:.*]] = nn.mse %[[P]], %[[TARGET]]
// CHECK: nn.all_reduce %[[PART]]
func.func @error(%x: tensor<6x8xf32>, %target: tensor<6x8xf32>) -> tensor<f32> {
  %w = nn.get @w : tensor<8x8xf32>
  %p = nn.matmul %x, %w : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %sum = nn.mse %p, %target : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<f32>
  return %sum : tensor<f32>
}
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}

// -----

func.func @heads(%q: tensor<1x3x6x4xf32>, %k: tensor<1x3x3x4xf32>) {
  // expected-error @below {{--mesh: tensor:2 does not divide the 3 key/value heads of this attention; the nearest that does is tensor:3}}
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<1x3x6x4xf32>, tensor<1x3x3x4xf32>, tensor<1x3x3x4xf32>) -> (tensor<1x3x6x4xf32>, tensor<1x6x3xf32>)
  return
}
