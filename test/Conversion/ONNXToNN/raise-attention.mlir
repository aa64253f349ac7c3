// RUN: shardonnx-opt %s -raise-attention -canonicalize -split-input-file | FileCheck %s

// As opset 18 writes scaled_dot_product_attention: queries and keys each scaled
// by the root, the mask added, rows that see nothing guarded; key and value
// heads repeated before. What was transposed to [batch, heads, seq, dim] is not.
// CHECK-LABEL: func.func @sdpa
// CHECK-NEXT: %[[R:[^,]*]], %{{.*}} = nn.attention %arg0, %arg1, %arg2 {causal, scale = 2.500000e-01 : f32} : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
// CHECK-NEXT: return %[[R]]
func.func @sdpa(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>) -> tensor<2x5x4x8xf32> {
  %qt = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
  %kt = nn.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
  %vt = nn.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
  %k5 = nn.reshape %kt : tensor<2x2x5x8xf32> -> tensor<2x2x1x5x8xf32>
  %kb = nn.broadcast %k5 : tensor<2x2x1x5x8xf32> -> tensor<2x2x2x5x8xf32>
  %kr = nn.reshape %kb : tensor<2x2x2x5x8xf32> -> tensor<2x4x5x8xf32>
  %v5 = nn.reshape %vt : tensor<2x2x5x8xf32> -> tensor<2x2x1x5x8xf32>
  %vb = nn.broadcast %v5 : tensor<2x2x1x5x8xf32> -> tensor<2x2x2x5x8xf32>
  %vr = nn.reshape %vb : tensor<2x2x2x5x8xf32> -> tensor<2x4x5x8xf32>
  %root = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hide = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x5x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %seen = nn.compare ge %row, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %mask = nn.select %seen, %zero, %hide : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %qs = nn.mul %qt, %root : (tensor<2x4x5x8xf32>, tensor<f32>) -> tensor<2x4x5x8xf32>
  %kx = nn.transpose %kr {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x5x8xf32>) -> tensor<2x4x8x5xf32>
  %ks = nn.mul %kx, %root : (tensor<2x4x8x5xf32>, tensor<f32>) -> tensor<2x4x8x5xf32>
  %s = nn.matmul %qs, %ks : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %s, %mask : (tensor<2x4x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %m : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %nan = nn.compare ne %p, %p : (tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xi1>
  %safe = nn.select %nan, %zero, %p : (tensor<2x4x5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %safe, %vr : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  %y = nn.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
  return %y : tensor<2x5x4x8xf32>
}

// -----

// Eager attention: scores divided, capped, selected by the mask; another mask is
// data and stays an operand.
// CHECK-LABEL: func.func @eager
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %arg3 {causal, hidden = -1.000000e+09 : f32, scale = 5.000000e-01 : f32, softcap = 2.000000e+01 : f32, window = 3 : i64}
func.func @eager(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %bias: tensor<2x1x5x5xf32>) -> tensor<2x4x5x8xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %cap = nn.constant dense<20.0> : tensor<f32>
  %hide = nn.constant dense<-1.0e+09> : tensor<f32>
  %off = nn.constant dense<-3> : tensor<i64>
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x5x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %ge = nn.compare ge %row, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %start = nn.add %row, %off : (tensor<1x1x5x1xi64>, tensor<i64>) -> tensor<1x1x5x1xi64>
  %lt = nn.compare lt %start, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %seen = nn.and %ge, %lt : (tensor<1x1x5x5xi1>, tensor<1x1x5x5xi1>) -> tensor<1x1x5x5xi1>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %d = nn.div %s, %two : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %c0 = nn.div %d, %cap : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %c1 = nn.tanh %c0 : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %c2 = nn.mul %c1, %cap : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %w = nn.select %seen, %c2, %hide : (tensor<1x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %w, %bias : (tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %m : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// A mask of the wrong offset hides other keys: it stays. One that hides nothing
// goes.
// CHECK-LABEL: func.func @masks
// CHECK: nn.attention %arg0, %arg1, %arg1, %{{.*}} {scale
// CHECK: nn.attention %arg0, %arg1, %arg1 {scale
func.func @masks(%q: tensor<2x3x4x8xf32>, %k: tensor<2x5x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) {
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x3x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %seen = nn.compare ge %row, %column : (tensor<1x1x3x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x3x5xi1>
  %all = nn.constant dense<true> : tensor<1x1x1x1xi1>
  %0, %l0 = nn.attention %q, %k, %k, %seen {scale = 1.0 : f32} : (tensor<2x3x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<1x1x3x5xi1>) -> (tensor<2x3x4x8xf32>, tensor<2x4x3xf32>)
  %1, %l1 = nn.attention %q, %k, %k, %all {scale = 1.0 : f32} : (tensor<2x3x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<1x1x1x1xi1>) -> (tensor<2x3x4x8xf32>, tensor<2x4x3xf32>)
  return %0, %1 : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>
}

// -----

// Both masks of eager attention are kept: the boolean one as numbers. A query
// of which it hides every key has the same score everywhere, without the bias.
// CHECK-LABEL: func.func @joined
// CHECK: %[[HIDE:.*]] = nn.select %arg3, %{{.*}}, %{{.*}} : (tensor<2x1x1x5xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x5xf32>
// CHECK: %[[SUM:.*]] = nn.add %{{.*}}, %{{.*}} : {{.*}} -> tensor<2x1x5x5xf32>
// CHECK: %[[O:.*]], %{{.*}} = nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[SUM]] {hidden = -1.000000e+09 : f32, scale = 1.000000e+00 : f32}
// CHECK: %[[SEEING:.*]] = nn.transpose %[[O]]
// CHECK: %[[NUMBERS:.*]] = nn.cast %arg3
// CHECK: %[[MOST:.*]] = nn.reduce_max %[[NUMBERS]]
// CHECK: %[[SEES:.*]] = nn.compare gt %[[MOST]]
// CHECK: %[[MEAN:.*]] = nn.reduce_mean %arg2
// CHECK: nn.select %[[SEES]], %[[SEEING]], %[[MEAN]] : (tensor<2x1x1x1xi1>, tensor<2x4x5x8xf32>, tensor<2x4x1x8xf32>)
func.func @joined(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %keep: tensor<2x1x1x5xi1>, %bias: tensor<2x1x5x5xf32>) -> tensor<2x4x5x8xf32> {
  %hide = nn.constant dense<-1.0e+09> : tensor<f32>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %w = nn.add %s, %bias : (tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %m = nn.select %keep, %w, %hide : (tensor<2x1x1x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %m : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// A bias behind the condition tells such a query's keys apart.
// CHECK-LABEL: func.func @joined_behind
// CHECK-NOT: nn.attention
// CHECK: nn.softmax
func.func @joined_behind(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %keep: tensor<2x1x1x5xi1>, %bias: tensor<2x1x5x5xf32>) -> tensor<2x4x5x8xf32> {
  %hide = nn.constant dense<-1.0e+09> : tensor<f32>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %w = nn.select %keep, %s, %hide : (tensor<2x1x1x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %w, %bias : (tensor<2x4x5x5xf32>, tensor<2x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %m : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// So do two numbers: it sees what the larger one hides.
// CHECK-LABEL: func.func @two_numbers
// CHECK-NOT: nn.attention
// CHECK: nn.softmax
func.func @two_numbers(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %keep: tensor<2x1x1x5xi1>, %past: tensor<5x5xi1>) -> tensor<2x4x5x8xf32> {
  %hide = nn.constant dense<-1.0e+09> : tensor<f32>
  %never = nn.constant dense<0xFF800000> : tensor<f32>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %w = nn.select %past, %s, %never : (tensor<5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %m = nn.select %keep, %w, %hide : (tensor<2x1x1x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %m : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// masked_fill hides where a flag is set; ALiBi of the heads is a mask to add.
// CHECK-LABEL: func.func @masked_fill
func.func @masked_fill(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %alibi: tensor<3x1x4xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: %[[M:.*]] = nn.reshape %arg3 : tensor<3x1x4xf32> -> tensor<1x3x1x4xf32>
  // CHECK: nn.attention {{.*}}%[[M]]{{.*}}causal
  // CHECK-NOT: nn.softmax
  %hidden = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0 = nn.matmul %q, %k {transpose_rhs} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = nn.add %0, %alibi : (tensor<2x3x4x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x4x4xf32>
  %r = nn.iota {axis = 2 : i64} : () -> tensor<1x1x4x1xi64>
  %c = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x4xi64>
  %2 = nn.compare ge %r, %c : (tensor<1x1x4x1xi64>, tensor<1x1x1x4xi64>) -> tensor<1x1x4x4xi1>
  %3 = nn.select %2, %no, %yes : (tensor<1x1x4x4xi1>, tensor<i1>, tensor<i1>) -> tensor<1x1x4x4xi1>
  %4 = nn.select %3, %hidden, %1 : (tensor<1x1x4x4xi1>, tensor<f32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %5 = nn.softmax %4 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %6 = nn.matmul %5, %v : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// -----

// As CodeGen writes it: the mask is added before scores are divided. What hides
// still hides; a bias is divided, too.
// CHECK-LABEL: func.func @mask_before_scale
// CHECK: %[[BIAS:.*]] = nn.mul %arg3, %{{.*}} : (tensor<1x4x5x5xf32>, tensor<f32>)
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[BIAS]] {added, causal, hidden = -8.50705867E+37 : f32, scale = 2.500000e-01 : f32}
func.func @mask_before_scale(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %bias: tensor<1x4x5x5xf32>) -> tensor<2x4x5x8xf32> {
  %four = nn.constant dense<4.0> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hide = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x5x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %seen = nn.compare ge %row, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %mask = nn.select %seen, %zero, %hide : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %b = nn.add %s, %bias : (tensor<2x4x5x5xf32>, tensor<1x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %b, %mask : (tensor<2x4x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %d = nn.div %m, %four : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %d : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// A number that hides scores, but no longer when it is divided, is a bias.
// CHECK-LABEL: func.func @weak_mask
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {scale = 1.000000e-03 : f32, unguarded}
func.func @weak_mask(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
  %thousandth = nn.constant dense<0.001> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hide = nn.constant dense<-1.0e+05> : tensor<f32>
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x5x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %seen = nn.compare ge %row, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %mask = nn.select %seen, %zero, %hide : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %s, %mask : (tensor<2x4x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %d = nn.mul %m, %thousandth : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %d : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// Values narrower than keys, as in DeepSeek's latent attention, are made as
// wide; what that adds to the result is cut off.
// CHECK-LABEL: func.func @narrow_values
// CHECK: %[[V:.*]] = nn.pad %{{.*}} {high = array<i64: 0, 0, 0, 2>, low = array<i64: 0, 0, 0, 0>} : (tensor<2x5x4x6xf32>) -> tensor<2x5x4x8xf32>
// CHECK: %[[R:[^,]*]], %{{.*}} = nn.attention %{{.*}}, %{{.*}}, %[[V]] {
// CHECK: nn.slice %[[R]] {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 5, 4, 6>}
func.func @narrow_values(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32> {
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %s : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  return %o : tensor<2x4x5x6xf32>
}

// -----

// Keys that are one head's, repeated, with values of each head's own.
// CHECK-LABEL: func.func @repeated_keys
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {{.*}} : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>)
func.func @repeated_keys(%q: tensor<2x4x5x8xf32>, %k: tensor<2x1x5x8xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
  %k5 = nn.reshape %k : tensor<2x1x5x8xf32> -> tensor<2x1x1x5x8xf32>
  %kb = nn.broadcast %k5 : tensor<2x1x1x5x8xf32> -> tensor<2x1x4x5x8xf32>
  %kr = nn.reshape %kb : tensor<2x1x4x5x8xf32> -> tensor<2x4x5x8xf32>
  %s = nn.matmul %q, %kr {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %p = nn.softmax %s : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// Products of other shapes between a softmax and its scores are left alone.
// CHECK-LABEL: func.func @other_sequences
// CHECK-NOT: nn.attention
// CHECK: nn.softmax
func.func @other_sequences(%q: tensor<2x3x5x8xf32>, %k: tensor<2x1x5x8xf32>, %v: tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32> {
  %s = nn.matmul %q, %k {transpose_rhs} : (tensor<2x3x5x8xf32>, tensor<2x1x5x8xf32>) -> tensor<2x3x5x5xf32>
  %p = nn.softmax %s : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %o = nn.matmul %p, %v : (tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  return %o : tensor<2x3x5x8xf32>
}

// A largest score that is taken away beforehand takes nothing away.
// CHECK-LABEL: func.func @row_max
func.func @row_max(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[P:.*]] = nn.softmax %arg0
  // CHECK-NEXT: return %[[P]]
  %m = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %d = nn.sub %x, %m : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %p = nn.softmax %d : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %p : tensor<2x8xf32>
}

// Batch and heads as one axis, behind the sequence in memory, as
// nn.MultiheadAttention has them: many heads of one sample. A mask of three
// axes goes by both.
// CHECK-LABEL: func.func @merged_heads
func.func @merged_heads(%q: tensor<6x8x4xf32>, %k: tensor<6x8x4xf32>, %v: tensor<6x8x4xf32>, %m: tensor<8x6x6xf32>) -> tensor<8x6x4xf32> {
  // CHECK: %[[MASK:.*]] = nn.reshape %arg3 : tensor<8x6x6xf32> -> tensor<1x8x6x6xf32>
  // CHECK: %[[R:[^,]*]], %{{.*}} = nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] {{.*}} : (tensor<1x6x8x4xf32>, tensor<1x6x8x4xf32>, tensor<1x6x8x4xf32>, tensor<1x8x6x6xf32>)
  // CHECK: %[[T:.*]] = nn.transpose %[[R]] {permutation = array<i64: 0, 2, 1, 3>}
  // CHECK: nn.reshape %[[T]] : tensor<1x8x6x4xf32> -> tensor<8x6x4xf32>
  %0 = nn.transpose %q {permutation = array<i64: 1, 0, 2>} : (tensor<6x8x4xf32>) -> tensor<8x6x4xf32>
  %1 = nn.transpose %k {permutation = array<i64: 1, 2, 0>} : (tensor<6x8x4xf32>) -> tensor<8x4x6xf32>
  %2 = nn.transpose %v {permutation = array<i64: 1, 0, 2>} : (tensor<6x8x4xf32>) -> tensor<8x6x4xf32>
  %3 = nn.matmul %0, %1 : (tensor<8x6x4xf32>, tensor<8x4x6xf32>) -> tensor<8x6x6xf32>
  %4 = nn.add %3, %m : (tensor<8x6x6xf32>, tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
  %5 = nn.softmax %4 : (tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
  %6 = nn.matmul %5, %2 : (tensor<8x6x6xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
  return %6 : tensor<8x6x4xf32>
}

// Parted for a mask, and merged again: batch and heads are what the reshape says.
// CHECK-LABEL: func.func @parted_scores
func.func @parted_scores(%q: tensor<8x6x4xf32>, %k: tensor<8x6x4xf32>, %v: tensor<8x6x4xf32>, %m: tensor<2x1x6x6xf32>) -> tensor<8x6x4xf32> {
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %arg3 {{.*}} : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>, tensor<2x1x6x6xf32>)
  %0 = nn.matmul %q, %k {transpose_rhs} : (tensor<8x6x4xf32>, tensor<8x6x4xf32>) -> tensor<8x6x6xf32>
  %1 = nn.reshape %0 : tensor<8x6x6xf32> -> tensor<2x4x6x6xf32>
  %2 = nn.add %1, %m : (tensor<2x4x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x4x6x6xf32>
  %3 = nn.reshape %2 : tensor<2x4x6x6xf32> -> tensor<8x6x6xf32>
  %4 = nn.softmax %3 : (tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
  %5 = nn.matmul %4, %v : (tensor<8x6x6xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
  return %5 : tensor<8x6x4xf32>
}

// One head of every sample.
// CHECK-LABEL: func.func @one_head
func.func @one_head(%q: tensor<2x6x4xf32>) -> tensor<2x6x4xf32> {
  // CHECK: nn.attention {{.*}} : (tensor<2x6x1x4xf32>, tensor<2x6x1x4xf32>, tensor<2x6x1x4xf32>)
  %0 = nn.matmul %q, %q {transpose_rhs} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x6xf32>
  %1 = nn.softmax %0 : (tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %2 = nn.matmul %1, %q : (tensor<2x6x6xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  return %2 : tensor<2x6x4xf32>
}
