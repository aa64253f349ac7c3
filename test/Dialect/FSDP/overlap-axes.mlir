// RUN: shardonnx-opt %s -fsdp-overlap-axes | FileCheck %s

nn.parameter @w : tensor<512x512xf32> trainable {onnx_name = "w"}
nn.parameter @v : tensor<512x512xf32> trainable {onnx_name = "v"}

// A block of a ring is sent while the one before is computed: from the last op
// on that leaves enough work, and behind the one that is sent before it.
// CHECK-LABEL: func.func @early
// CHECK-SAME: %[[X:.*]]: tensor<2048x2048xf32>, %[[K:.*]]: tensor<8x8xf32>
// CHECK-NEXT: %[[A:.*]] = nn.matmul %[[X]], %[[X]]
// CHECK-NEXT: nn.part_shift %[[K]] {axis = "context", behind = 1
// CHECK-NEXT: nn.part_shift %[[K]] {axis = "context", behind = 2
// CHECK-NEXT: nn.matmul %[[A]]
// CHECK-NEXT: nn.add
func.func @early(%x: tensor<2048x2048xf32>, %k: tensor<8x8xf32>) -> (tensor<2048x2048xf32>, tensor<8x8xf32>) {
  %a = nn.matmul %x, %x : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %b = nn.matmul %a, %x : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %s = nn.part_shift %k {axis = "context", parts = 4, behind = 1} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = nn.part_shift %k {axis = "context", parts = 4, behind = 2} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = nn.add %s, %t : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %b, %u : tensor<2048x2048xf32>, tensor<8x8xf32>
}

// What reads a sum that is under way lets the product go first that was only
// computed early because it could be, with what becomes of its result. The one
// that is needed stays in front.
// CHECK-LABEL: func.func @behind
// CHECK-NOT: transpose_lhs
// CHECK: %[[DX:.*]] = nn.matmul {{.*}} transpose_rhs
// CHECK-NEXT: %[[S:.*]] = nn.reduce_scatter %[[DX]]
// CHECK-NEXT: %[[DW:.*]] = nn.matmul {{.*}} transpose_lhs
// CHECK-NEXT: nn.grad @w, %[[DW]]
// CHECK-NEXT: nn.neg %[[S]]
func.func @behind(%x: tensor<1024x512xf32>, %dy: tensor<1024x512xf32>) -> tensor<512x512xf32> {
  %w = nn.get @w : tensor<512x512xf32>
  %dw = nn.matmul %x, %dy {transpose_lhs, place = #nn.place<@h.0, backward>} : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
  nn.grad @w, %dw : tensor<512x512xf32>
  %dx = nn.matmul %dy, %w {transpose_rhs, place = #nn.place<@h.0, backward>} : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
  %s = nn.reduce_scatter %dx {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 1024>, place = #nn.place<@h.0, backward>} : (tensor<1024x512xf32>) -> tensor<512x512xf32>
  %n = nn.neg %s {place = #nn.place<@h.0, backward>} : (tensor<512x512xf32>) -> tensor<512x512xf32>
  return %n : tensor<512x512xf32>
}

// So do ops behind it that have all they read, and collectives among them, but
// none of another unit.
// CHECK-LABEL: func.func @ahead
// CHECK: %[[G:.*]] = nn.all_gather
// CHECK-NEXT: %[[N:.*]] = nn.neg
// CHECK-NEXT: %[[H:.*]] = nn.all_gather %[[N]]
// CHECK-NEXT: nn.relu %[[G]]
// CHECK-NEXT: nn.relu %[[H]]
// CHECK-NEXT: nn.exp
func.func @ahead(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<128x64xf32>, tensor<128x64xf32>, tensor<64x64xf32>) {
  %g = nn.all_gather %x {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 128>, place = #nn.place<@h.0>} : (tensor<64x64xf32>) -> tensor<128x64xf32>
  %r = nn.relu %g {place = #nn.place<@h.0>} : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %n = nn.neg %y {place = #nn.place<@h.0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = nn.all_gather %n {axis = "tensor", dim = 0, parts = 2, sections = array<i64: 128>, place = #nn.place<@h.0>} : (tensor<64x64xf32>) -> tensor<128x64xf32>
  %q = nn.relu %h {place = #nn.place<@h.0>} : (tensor<128x64xf32>) -> tensor<128x64xf32>
  %e = nn.exp %y {place = #nn.place<@h.1>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %r, %q, %e : tensor<128x64xf32>, tensor<128x64xf32>, tensor<64x64xf32>
}
