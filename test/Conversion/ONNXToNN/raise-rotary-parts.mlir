// Rotary written with parts of heads: a·cos - b·sin beside b·cos + a·sin, with
// tables that have each frequency once.
// RUN: shardonnx-opt %s -raise-rotary -canonicalize -cse | FileCheck %s

// Halves (gpt-oss).
// CHECK-LABEL: func.func @halves
// CHECK: %[[COS:[^,]*]], %[[SIN:.*]] = nn.rotary_table {inv_freq = array<f32: 1.000000e+00, 2.500000e-01>, length = 6 : i64}
// CHECK: %[[X:.*]] = nn.transpose %arg0 {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: nn.rotary %[[X]], %[[COS]], %[[SIN]] : (tensor<2x6x3x4xf32>
// CHECK-NOT: nn.mul
func.func @halves(%x: tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32> {
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00], [5.403023059e-01, 9.689124217e-01], [-4.161468365e-01, 8.775825619e-01], [-9.899924966e-01, 7.316888689e-01], [-6.536436209e-01, 5.403023059e-01], [2.836621855e-01, 3.153223624e-01]]]]> : tensor<1x1x6x2xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00], [8.414709848e-01, 2.474039593e-01], [9.092974268e-01, 4.794255386e-01], [1.411200081e-01, 6.816387600e-01], [-7.568024953e-01, 8.414709848e-01], [-9.589242747e-01, 9.489846194e-01]]]]> : tensor<1x1x6x2xf32>
  %a = nn.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %b = nn.slice %x {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %f = nn.sub %ac, %bs : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %g = nn.add %bc, %as : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %y = nn.concat %f, %g {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  return %y : tensor<2x3x6x4xf32>
}

// Sums in the other order, and turned back.
// CHECK-LABEL: func.func @back
// CHECK: nn.rotary {{.*}} {inverse}
func.func @back(%x: tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32> {
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00], [5.403023059e-01, 9.689124217e-01], [-4.161468365e-01, 8.775825619e-01], [-9.899924966e-01, 7.316888689e-01], [-6.536436209e-01, 5.403023059e-01], [2.836621855e-01, 3.153223624e-01]]]]> : tensor<1x1x6x2xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00], [8.414709848e-01, 2.474039593e-01], [9.092974268e-01, 4.794255386e-01], [1.411200081e-01, 6.816387600e-01], [-7.568024953e-01, 8.414709848e-01], [-9.589242747e-01, 9.489846194e-01]]]]> : tensor<1x1x6x2xf32>
  %a = nn.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %b = nn.slice %x {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %f = nn.add %bs, %ac : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %g = nn.sub %bc, %as : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %y = nn.concat %f, %g {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  return %y : tensor<2x3x6x4xf32>
}

// Two halves that are the wrong way round are none.
// CHECK-LABEL: func.func @swapped
// CHECK-NOT: nn.rotary
// CHECK: return
func.func @swapped(%x: tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32> {
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00], [5.403023059e-01, 9.689124217e-01], [-4.161468365e-01, 8.775825619e-01], [-9.899924966e-01, 7.316888689e-01], [-6.536436209e-01, 5.403023059e-01], [2.836621855e-01, 3.153223624e-01]]]]> : tensor<1x1x6x2xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00], [8.414709848e-01, 2.474039593e-01], [9.092974268e-01, 4.794255386e-01], [1.411200081e-01, 6.816387600e-01], [-7.568024953e-01, 8.414709848e-01], [-9.589242747e-01, 9.489846194e-01]]]]> : tensor<1x1x6x2xf32>
  %a = nn.slice %x {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %b = nn.slice %x {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x3x6x2xf32>, tensor<1x1x6x2xf32>) -> tensor<2x3x6x2xf32>
  %f = nn.sub %bc, %as : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %g = nn.add %ac, %bs : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %y = nn.concat %f, %g {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  return %y : tensor<2x3x6x4xf32>
}

// Pairs, before heads come first (llama's complex numbers).
// CHECK-LABEL: func.func @pairs(
// CHECK: %[[COS:[^,]*]], %[[SIN:.*]] = nn.rotary_table {inv_freq = array<f32: 1.000000e+00, 2.500000e-01>, length = 6 : i64}
// CHECK: nn.rotary %arg0, %[[COS]], %[[SIN]] {interleaved} : (tensor<2x6x3x4xf32>
// CHECK-NOT: nn.mul
func.func @pairs(%x: tensor<2x6x3x4xf32>) -> tensor<2x6x3x4xf32> {
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00]], [[5.403023059e-01, 9.689124217e-01]], [[-4.161468365e-01, 8.775825619e-01]], [[-9.899924966e-01, 7.316888689e-01]], [[-6.536436209e-01, 5.403023059e-01]], [[2.836621855e-01, 3.153223624e-01]]]]> : tensor<1x6x1x2xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00]], [[8.414709848e-01, 2.474039593e-01]], [[9.092974268e-01, 4.794255386e-01]], [[1.411200081e-01, 6.816387600e-01]], [[-7.568024953e-01, 8.414709848e-01]], [[-9.589242747e-01, 9.489846194e-01]]]]> : tensor<1x6x1x2xf32>
  %p = nn.reshape %x : tensor<2x6x3x4xf32> -> tensor<2x6x3x2x2xf32>
  %a1 = nn.slice %p {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 6, 3, 2, 1>} : (tensor<2x6x3x2x2xf32>) -> tensor<2x6x3x2x1xf32>
  %b1 = nn.slice %p {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 6, 3, 2, 1>} : (tensor<2x6x3x2x2xf32>) -> tensor<2x6x3x2x1xf32>
  %a = nn.reshape %a1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %b = nn.reshape %b1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %f = nn.sub %ac, %bs : (tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>) -> tensor<2x6x3x2xf32>
  %g = nn.add %as, %bc : (tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>) -> tensor<2x6x3x2xf32>
  %f1 = nn.reshape %f : tensor<2x6x3x2xf32> -> tensor<2x6x3x2x1xf32>
  %g1 = nn.reshape %g : tensor<2x6x3x2xf32> -> tensor<2x6x3x2x1xf32>
  %c = nn.concat %f1, %g1 {axis = 4 : i64} : (tensor<2x6x3x2x1xf32>, tensor<2x6x3x2x1xf32>) -> tensor<2x6x3x2x2xf32>
  %y = nn.reshape %c : tensor<2x6x3x2x2xf32> -> tensor<2x6x3x4xf32>
  return %y : tensor<2x6x3x4xf32>
}

// Elements of pairs that end as halves.
// CHECK-LABEL: func.func @halves_of_pairs(
// CHECK-NOT: nn.rotary
// CHECK: return
func.func @halves_of_pairs(%x: tensor<2x6x3x4xf32>) -> tensor<2x6x3x4xf32> {
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00]], [[5.403023059e-01, 9.689124217e-01]], [[-4.161468365e-01, 8.775825619e-01]], [[-9.899924966e-01, 7.316888689e-01]], [[-6.536436209e-01, 5.403023059e-01]], [[2.836621855e-01, 3.153223624e-01]]]]> : tensor<1x6x1x2xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00]], [[8.414709848e-01, 2.474039593e-01]], [[9.092974268e-01, 4.794255386e-01]], [[1.411200081e-01, 6.816387600e-01]], [[-7.568024953e-01, 8.414709848e-01]], [[-9.589242747e-01, 9.489846194e-01]]]]> : tensor<1x6x1x2xf32>
  %p = nn.reshape %x : tensor<2x6x3x4xf32> -> tensor<2x6x3x2x2xf32>
  %a1 = nn.slice %p {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 6, 3, 2, 1>} : (tensor<2x6x3x2x2xf32>) -> tensor<2x6x3x2x1xf32>
  %b1 = nn.slice %p {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 6, 3, 2, 1>} : (tensor<2x6x3x2x2xf32>) -> tensor<2x6x3x2x1xf32>
  %a = nn.reshape %a1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %b = nn.reshape %b1 : tensor<2x6x3x2x1xf32> -> tensor<2x6x3x2xf32>
  %ac = nn.mul %a, %cos : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %as = nn.mul %a, %sin : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %bc = nn.mul %b, %cos : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %bs = nn.mul %b, %sin : (tensor<2x6x3x2xf32>, tensor<1x6x1x2xf32>) -> tensor<2x6x3x2xf32>
  %f = nn.sub %ac, %bs : (tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>) -> tensor<2x6x3x2xf32>
  %g = nn.add %as, %bc : (tensor<2x6x3x2xf32>, tensor<2x6x3x2xf32>) -> tensor<2x6x3x2xf32>
  %f1 = nn.reshape %f : tensor<2x6x3x2xf32> -> tensor<2x6x3x1x2xf32>
  %g1 = nn.reshape %g : tensor<2x6x3x2xf32> -> tensor<2x6x3x1x2xf32>
  %c = nn.concat %f1, %g1 {axis = 4 : i64} : (tensor<2x6x3x1x2xf32>, tensor<2x6x3x1x2xf32>) -> tensor<2x6x3x1x4xf32>
  %y = nn.reshape %c : tensor<2x6x3x1x4xf32> -> tensor<2x6x3x4xf32>
  return %y : tensor<2x6x3x4xf32>
}
