// x·cos + rotate_half(x)·sin with tables of cos and sin becomes one op over
// frequencies. The tables here are those of the frequencies 1 and 1/4.
// RUN: shardonnx-opt %s -raise-rotary -cse | FileCheck %s

// Queries and keys of different heads read one pair of tables.
// CHECK-LABEL: func.func @rotary
func.func @rotary(%q: tensor<2x3x6x4xf32>, %k: tensor<2x1x6x4xf32>) -> (tensor<2x3x6x4xf32>, tensor<2x1x6x4xf32>) {
  // CHECK: %[[COS:[^,]*]], %[[SIN:.*]] = nn.rotary_table {inv_freq = array<f32: 1.000000e+00, 2.500000e-01>, length = 6 : i64}
  // CHECK: %[[Q:.*]] = nn.transpose %arg0 {permutation = array<i64: 0, 2, 1, 3>}
  // CHECK: %[[RQ:.*]] = nn.rotary %[[Q]], %[[COS]], %[[SIN]] : (tensor<2x6x3x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  // CHECK: nn.transpose %[[RQ]] {permutation = array<i64: 0, 2, 1, 3>}
  // CHECK: nn.rotary %{{.*}}, %[[COS]], %[[SIN]] : (tensor<2x6x1x4xf32>,
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00, 1.000000000e+00, 1.000000000e+00], [5.403022766e-01, 9.689124227e-01, 5.403022766e-01, 9.689124227e-01], [-4.161468446e-01, 8.775825500e-01, -4.161468446e-01, 8.775825500e-01], [-9.899924994e-01, 7.316888571e-01, -9.899924994e-01, 7.316888571e-01], [-6.536436081e-01, 5.403022766e-01, -6.536436081e-01, 5.403022766e-01], [2.836622000e-01, 3.153223693e-01, 2.836622000e-01, 3.153223693e-01]]]]> : tensor<1x1x6x4xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00, 0.000000000e+00, 0.000000000e+00], [8.414709568e-01, 2.474039644e-01, 8.414709568e-01, 2.474039644e-01], [9.092974067e-01, 4.794255495e-01, 9.092974067e-01, 4.794255495e-01], [1.411200017e-01, 6.816387773e-01, 1.411200017e-01, 6.816387773e-01], [-7.568024993e-01, 8.414709568e-01, -7.568024993e-01, 8.414709568e-01], [-9.589242935e-01, 9.489846230e-01, -9.589242935e-01, 9.489846230e-01]]]]> : tensor<1x1x6x4xf32>
  %l0 = nn.slice %q {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %r0 = nn.slice %q {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %n0 = nn.neg %r0 : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %h0 = nn.concat %n0, %l0 {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  %a0 = nn.mul %q, %cos : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %b0 = nn.mul %h0, %sin : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %y0 = nn.add %a0, %b0 : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  %l1 = nn.slice %k {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 1, 6, 2>} : (tensor<2x1x6x4xf32>) -> tensor<2x1x6x2xf32>
  %r1 = nn.slice %k {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 1, 6, 2>} : (tensor<2x1x6x4xf32>) -> tensor<2x1x6x2xf32>
  %n1 = nn.neg %r1 : (tensor<2x1x6x2xf32>) -> tensor<2x1x6x2xf32>
  %h1 = nn.concat %n1, %l1 {axis = 3 : i64} : (tensor<2x1x6x2xf32>, tensor<2x1x6x2xf32>) -> tensor<2x1x6x4xf32>
  %a1 = nn.mul %k, %cos : (tensor<2x1x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x1x6x4xf32>
  %b1 = nn.mul %h1, %sin : (tensor<2x1x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x1x6x4xf32>
  %y1 = nn.add %a1, %b1 : (tensor<2x1x6x4xf32>, tensor<2x1x6x4xf32>) -> tensor<2x1x6x4xf32>
  return %y0, %y1 : tensor<2x3x6x4xf32>, tensor<2x1x6x4xf32>
}

// Tables that no frequencies explain stay constants, of half the width.
// CHECK-LABEL: func.func @table
func.func @table(%q: tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32> {
  // CHECK-NOT: nn.rotary_table
  // CHECK: nn.rotary %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x6x3x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00, 1.000000000e+00, 1.000000000e+00], [5.403022766e-01, 9.689124227e-01, 5.403022766e-01, 9.689124227e-01], [-4.161468446e-01, 8.775825500e-01, -4.161468446e-01, 8.775825500e-01], [5.000000000e-01, 7.316888571e-01, 5.000000000e-01, 7.316888571e-01], [-6.536436081e-01, 5.403022766e-01, -6.536436081e-01, 5.403022766e-01], [2.836622000e-01, 3.153223693e-01, 2.836622000e-01, 3.153223693e-01]]]]> : tensor<1x1x6x4xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00, 0.000000000e+00, 0.000000000e+00], [8.414709568e-01, 2.474039644e-01, 8.414709568e-01, 2.474039644e-01], [9.092974067e-01, 4.794255495e-01, 9.092974067e-01, 4.794255495e-01], [1.411200017e-01, 6.816387773e-01, 1.411200017e-01, 6.816387773e-01], [-7.568024993e-01, 8.414709568e-01, -7.568024993e-01, 8.414709568e-01], [-9.589242935e-01, 9.489846230e-01, -9.589242935e-01, 9.489846230e-01]]]]> : tensor<1x1x6x4xf32>
  %l0 = nn.slice %q {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %r0 = nn.slice %q {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %n0 = nn.neg %r0 : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %h0 = nn.concat %n0, %l0 {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  %a0 = nn.mul %q, %cos : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %b0 = nn.mul %h0, %sin : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %y0 = nn.add %a0, %b0 : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  return %y0 : tensor<2x3x6x4xf32>
}

// Pairs (2j, 2j + 1), each frequency twice in a row (Cohere, GLM).
// CHECK-LABEL: func.func @pairs
func.func @pairs(%q: tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32> {
  // CHECK: nn.rotary_table {inv_freq = array<f32: 1.000000e+00, 2.500000e-01>, length = 6 : i64}
  // CHECK: nn.rotary %{{.*}} {interleaved} : (tensor<2x6x3x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  // CHECK-NOT: nn.concat
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00, 1.000000000e+00, 1.000000000e+00], [5.403022766e-01, 5.403022766e-01, 9.689124227e-01, 9.689124227e-01], [-4.161468446e-01, -4.161468446e-01, 8.775825500e-01, 8.775825500e-01], [-9.899924994e-01, -9.899924994e-01, 7.316888571e-01, 7.316888571e-01], [-6.536436081e-01, -6.536436081e-01, 5.403022766e-01, 5.403022766e-01], [2.836622000e-01, 2.836622000e-01, 3.153223693e-01, 3.153223693e-01]]]]> : tensor<1x1x6x4xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00, 0.000000000e+00, 0.000000000e+00], [8.414709568e-01, 8.414709568e-01, 2.474039644e-01, 2.474039644e-01], [9.092974067e-01, 9.092974067e-01, 4.794255495e-01, 4.794255495e-01], [1.411200017e-01, 1.411200017e-01, 6.816387773e-01, 6.816387773e-01], [-7.568024993e-01, -7.568024993e-01, 8.414709568e-01, 8.414709568e-01], [-9.589242935e-01, -9.589242935e-01, 9.489846230e-01, 9.489846230e-01]]]]> : tensor<1x1x6x4xf32>
  %g = nn.reshape %q : tensor<2x3x6x4xf32> -> tensor<2x3x6x2x2xf32>
  %a = nn.slice %g {offsets = array<i64: 0, 0, 0, 0, 0>, sizes = array<i64: 2, 3, 6, 2, 1>} : (tensor<2x3x6x2x2xf32>) -> tensor<2x3x6x2x1xf32>
  %b = nn.slice %g {offsets = array<i64: 0, 0, 0, 0, 1>, sizes = array<i64: 2, 3, 6, 2, 1>} : (tensor<2x3x6x2x2xf32>) -> tensor<2x3x6x2x1xf32>
  %b1 = nn.reshape %b : tensor<2x3x6x2x1xf32> -> tensor<2x3x6x2xf32>
  %n = nn.neg %b1 : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %n1 = nn.reshape %n : tensor<2x3x6x2xf32> -> tensor<2x3x6x2x1xf32>
  %c = nn.concat %n1, %a {axis = 4 : i64} : (tensor<2x3x6x2x1xf32>, tensor<2x3x6x2x1xf32>) -> tensor<2x3x6x2x2xf32>
  %h = nn.reshape %c : tensor<2x3x6x2x2xf32> -> tensor<2x3x6x4xf32>
  %x0 = nn.mul %q, %cos : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %x1 = nn.mul %h, %sin : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %y = nn.add %x0, %x1 : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  return %y : tensor<2x3x6x4xf32>
}

// A part of each head that turns back, [right, -left], cut out of the whole
// head as its halves are (GLM-4 MoE, NanoChat).
// CHECK-LABEL: func.func @part
func.func @part(%q: tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32> {
  // CHECK: %[[X:.*]] = nn.slice %arg0 {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>}
  // CHECK: %[[T:.*]] = nn.transpose %[[X]]
  // CHECK: nn.rotary %[[T]], %{{.*}}, %{{.*}} {inverse}
  %cos = nn.constant dense<[[[[1.000000000e+00, 1.000000000e+00, 1.000000000e+00, 1.000000000e+00], [5.403022766e-01, 9.689124227e-01, 5.403022766e-01, 9.689124227e-01], [-4.161468446e-01, 8.775825500e-01, -4.161468446e-01, 8.775825500e-01], [-9.899924994e-01, 7.316888571e-01, -9.899924994e-01, 7.316888571e-01], [-6.536436081e-01, 5.403022766e-01, -6.536436081e-01, 5.403022766e-01], [2.836622000e-01, 3.153223693e-01, 2.836622000e-01, 3.153223693e-01]]]]> : tensor<1x1x6x4xf32>
  %sin = nn.constant dense<[[[[0.000000000e+00, 0.000000000e+00, 0.000000000e+00, 0.000000000e+00], [8.414709568e-01, 2.474039644e-01, 8.414709568e-01, 2.474039644e-01], [9.092974067e-01, 4.794255495e-01, 9.092974067e-01, 4.794255495e-01], [1.411200017e-01, 6.816387773e-01, 1.411200017e-01, 6.816387773e-01], [-7.568024993e-01, 8.414709568e-01, -7.568024993e-01, 8.414709568e-01], [-9.589242935e-01, 9.489846230e-01, -9.589242935e-01, 9.489846230e-01]]]]> : tensor<1x1x6x4xf32>
  %x = nn.slice %q {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 4>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x4xf32>
  %l = nn.slice %q {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x8xf32>) -> tensor<2x3x6x2xf32>
  %r = nn.slice %x {offsets = array<i64: 0, 0, 0, 2>, sizes = array<i64: 2, 3, 6, 2>} : (tensor<2x3x6x4xf32>) -> tensor<2x3x6x2xf32>
  %n = nn.neg %l : (tensor<2x3x6x2xf32>) -> tensor<2x3x6x2xf32>
  %h = nn.concat %r, %n {axis = 3 : i64} : (tensor<2x3x6x2xf32>, tensor<2x3x6x2xf32>) -> tensor<2x3x6x4xf32>
  %a = nn.mul %x, %cos : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %b = nn.mul %h, %sin : (tensor<2x3x6x4xf32>, tensor<1x1x6x4xf32>) -> tensor<2x3x6x4xf32>
  %y = nn.add %a, %b : (tensor<2x3x6x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x6x4xf32>
  return %y : tensor<2x3x6x4xf32>
}
