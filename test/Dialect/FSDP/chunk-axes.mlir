// RUN: shardonnx-opt %s -fsdp-chunk-axes=chunks=2 | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-chunk-axes | FileCheck %s --check-prefix=TIME

nn.parameter @w : tensor<512x1024xbf16> trainable {onnx_name = "w"}

// Of each rank's part, eight sequences of four tokens, the half is gathered while
// the other is multiplied; rows are joined as they were.
// CHECK-LABEL: func.func @gather
// CHECK: %[[X:.*]] = nn.reshape %arg0 : tensor<8x4x1024xbf16> -> tensor<1x32x1024xbf16>
// CHECK: %[[X0:.*]] = nn.slice %[[X]] {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 16, 1024>}
// CHECK: %[[G0:.*]] = nn.all_gather %[[X0]] {axis = "tensor", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 32>, varies} : (tensor<1x16x1024xbf16>) -> tensor<1x32x1024xbf16>
// CHECK: %[[R0:.*]] = nn.reshape %[[G0]]
// CHECK: nn.slice %[[X]] {offsets = array<i64: 0, 16, 0>
// CHECK: %[[Y0:.*]] = nn.matmul %[[R0]], %{{.*}} {transpose_rhs} : (tensor<32x1024xbf16>, tensor<512x1024xbf16>) -> tensor<32x512xbf16>
// CHECK: %[[Z0:.*]] = nn.reshape %[[Y0]] : tensor<32x512xbf16> -> tensor<2x16x512xbf16>
// CHECK: nn.matmul
// CHECK: %[[J:.*]] = nn.concat %[[Z0]], %{{.*}} {axis = 1 : i64}
// CHECK: %[[Y:.*]] = nn.reshape %[[J]] : tensor<2x32x512xbf16> -> tensor<64x512xbf16>
// CHECK: return %[[Y]]
// Too few rows to be worth it.
// TIME-LABEL: func.func @gather
// TIME-NOT: nn.slice
// TIME: return
func.func @gather(%x: tensor<8x4x1024xbf16>) -> tensor<64x512xbf16> {
  %w = nn.get @w : tensor<512x1024xbf16>
  %g = nn.all_gather %x {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 16>, varies} : (tensor<8x4x1024xbf16>) -> tensor<16x4x1024xbf16>
  %r = nn.reshape %g : tensor<16x4x1024xbf16> -> tensor<64x1024xbf16>
  %y = nn.matmul %r, %w {transpose_rhs} : (tensor<64x1024xbf16>, tensor<512x1024xbf16>) -> tensor<64x512xbf16>
  return %y : tensor<64x512xbf16>
}

// A sum of parts of sequences: of each of two sequences, and of each rank's part
// of it, the same half of the rows.
// CHECK-LABEL: func.func @sum
// CHECK: %[[A:.*]] = nn.reshape %arg0 {{.*}} : tensor<64x1024xbf16> -> tensor<4x16x1024xbf16>
// CHECK: %[[A0:.*]] = nn.slice %[[A]] {offsets = array<i64: 0, 0, 0>, place = #nn.place<@h.0, recompute>, sizes = array<i64: 4, 8, 1024>}
// CHECK: %[[B0:.*]] = nn.reshape %[[A0]] {{.*}} -> tensor<32x1024xbf16>
// CHECK: %[[Y0:.*]] = nn.matmul %[[B0]]
// CHECK: %[[C0:.*]] = nn.reshape %[[Y0]] {{.*}} -> tensor<2x16x512xbf16>
// CHECK: %[[S0:.*]] = nn.reduce_scatter %[[C0]] {axis = "tensor", dim = 1 : i64, {{.*}}sections = array<i64: 16>} : (tensor<2x16x512xbf16>) -> tensor<2x8x512xbf16>
// CHECK: nn.slice %[[A]] {offsets = array<i64: 0, 8, 0>
// CHECK: %[[S1:.*]] = nn.reduce_scatter
// CHECK: %[[S:.*]] = nn.concat %[[S0]], %[[S1]] {axis = 1 : i64
// CHECK: return %[[S]]
func.func @sum(%a: tensor<64x1024xbf16>) -> tensor<2x16x512xbf16> {
  %w = nn.get @w : tensor<512x1024xbf16>
  %y = nn.matmul %a, %w {transpose_rhs, place = #nn.place<@h.0, recompute>} : (tensor<64x1024xbf16>, tensor<512x1024xbf16>) -> tensor<64x512xbf16>
  %r = nn.reshape %y {place = #nn.place<@h.0, recompute>} : tensor<64x512xbf16> -> tensor<2x32x512xbf16>
  %s = nn.reduce_scatter %r {axis = "tensor", dim = 1, parts = 2, sections = array<i64: 32>, place = #nn.place<@h.0, recompute>} : (tensor<2x32x512xbf16>) -> tensor<2x16x512xbf16>
  return %s : tensor<2x16x512xbf16>
}

// Backward has other work beside it; rows that something else reads stay whole, and
// so do such that the chunks do not divide.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: nn.slice
// CHECK: return
func.func @whole(%a: tensor<64x1024xbf16>, %x: tensor<8x4x1024xbf16>, %o: tensor<1x3x1024xbf16>) -> (tensor<32x512xbf16>, tensor<64x512xbf16>, tensor<64x1024xbf16>, tensor<6x512xbf16>) {
  %w = nn.get @w : tensor<512x1024xbf16>
  %y = nn.matmul %a, %w {transpose_rhs, place = #nn.place<@h.0, backward>} : (tensor<64x1024xbf16>, tensor<512x1024xbf16>) -> tensor<64x512xbf16>
  %s = nn.reduce_scatter %y {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 64>, place = #nn.place<@h.0, backward>} : (tensor<64x512xbf16>) -> tensor<32x512xbf16>
  %g = nn.all_gather %x {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 16>, varies} : (tensor<8x4x1024xbf16>) -> tensor<16x4x1024xbf16>
  %r = nn.reshape %g : tensor<16x4x1024xbf16> -> tensor<64x1024xbf16>
  %z = nn.matmul %r, %w {transpose_rhs} : (tensor<64x1024xbf16>, tensor<512x1024xbf16>) -> tensor<64x512xbf16>
  %n = nn.neg %r : (tensor<64x1024xbf16>) -> tensor<64x1024xbf16>
  %h = nn.all_gather %o {axis = "tensor", dim = 1, parts = 2, sections = array<i64: 6>, varies} : (tensor<1x3x1024xbf16>) -> tensor<1x6x1024xbf16>
  %q = nn.reshape %h : tensor<1x6x1024xbf16> -> tensor<6x1024xbf16>
  %v = nn.matmul %q, %w {transpose_rhs} : (tensor<6x1024xbf16>, tensor<512x1024xbf16>) -> tensor<6x512xbf16>
  return %s, %z, %n, %v : tensor<32x512xbf16>, tensor<64x512xbf16>, tensor<64x1024xbf16>, tensor<6x512xbf16>
}

// 131,072 rows are sent nearly as long as their product takes: in eight chunks, of
// which the first is waited for.
// TIME-LABEL: func.func @large
// TIME-COUNT-8: nn.all_gather {{.*}} -> tensor<1x16384x8192xbf16>
// TIME-NOT: nn.all_gather
// TIME: return
// Results so wide take longer to join than rows to send.
// TIME-LABEL: func.func @wide
// TIME-NOT: nn.slice
// TIME: return
func.func @large(%x: tensor<65536x8192xbf16>, %w: tensor<8192x1024xbf16>) -> tensor<131072x1024xbf16> {
  %g = nn.all_gather %x {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 131072>, varies} : (tensor<65536x8192xbf16>) -> tensor<131072x8192xbf16>
  %y = nn.matmul %g, %w : (tensor<131072x8192xbf16>, tensor<8192x1024xbf16>) -> tensor<131072x1024xbf16>
  return %y : tensor<131072x1024xbf16>
}
func.func @wide(%x: tensor<65536x1024xbf16>, %w: tensor<1024x8192xbf16>) -> tensor<131072x8192xbf16> {
  %g = nn.all_gather %x {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 131072>, varies} : (tensor<65536x1024xbf16>) -> tensor<131072x1024xbf16>
  %y = nn.matmul %g, %w : (tensor<131072x1024xbf16>, tensor<1024x8192xbf16>) -> tensor<131072x8192xbf16>
  return %y : tensor<131072x8192xbf16>
}
