// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-make-units | FileCheck %s

// Order of first use, not of declaration; the widest types win; a parameter
// without a gradient is frozen, an unused one is in no unit.
nn.parameter @unused : tensor<4xf32> trainable {onnx_name = "unused", place = #nn.place<@u>}
nn.parameter @second : tensor<300xf32> trainable {onnx_name = "second", place = #nn.place<@u>}
nn.parameter @first : tensor<300xf32> trainable {onnx_name = "first", place = #nn.place<@u>}
// expected-warning @+1 {{'idle' does not reach the loss, so it is frozen}}
nn.parameter @idle : tensor<300xf32> trainable {onnx_name = "idle", place = #nn.place<@u>}
// CHECK:      nn.parameter @idle : tensor<300xf32> {
// CHECK:      fsdp.unit @u sharded f32 reduce f32 length 1024 [
// CHECK-NEXT:   @first at 0 size 300,
// CHECK-NEXT:   @second at 512 size 300
// CHECK-NEXT: ] frozen 512 [
// CHECK-NEXT:   @idle at 0 size 300
// CHECK-NEXT: ] reshard_after_forward
// CHECK-NOT:  @unused at
func.func @microbatch(%g: tensor<300xbf16>, %h: tensor<300xf32>) {
  %0 = nn.get @first : tensor<300xbf16>
  %1 = nn.get @second : tensor<300xf32>
  %2 = nn.get @idle : tensor<300xbf16>
  nn.grad @second, %h : tensor<300xf32>
  nn.grad @first, %g : tensor<300xbf16>
  return
}

// -----

// expected-error @+1 {{belongs to no unit: run nn-assign-units first}}
nn.parameter @w : tensor<4xf32> trainable {onnx_name = "w"}
func.func @microbatch() {
  %0 = nn.get @w : tensor<4xf32>
  return
}

// -----

nn.parameter @ids : tensor<4xi64> {onnx_name = "ids", place = #nn.place<@u>}
func.func @microbatch() {
  // expected-error @+1 {{reads @ids as 'i64': only floats can be sharded}}
  %0 = nn.get @ids : tensor<4xi64>
  return
}

// -----

// A policy comes before the strategy; what the user ignores is whole.
// CHECK: fsdp.unit @root sharded f32 reduce f32 length 0 [] frozen 256
// CHECK: ] reshard_after_forward{{$}}
// CHECK: fsdp.unit @h.0 sharded
// CHECK: ]{{$}}
// CHECK: fsdp.unit @h.1 sharded
// CHECK: ] reshard_after_forward reshard_group 4
// CHECK: fsdp.unit @h.2 sharded
// CHECK: ] kept
// CHECK: fsdp.unit @ignored replicated
module attributes {nn.unit_policies = {
    root = {reshard_after_forward = 1 : i64},
    h.0 = {reshard_after_forward = 0 : i64},
    h.1 = {reshard_after_forward = 4 : i64}, h.2 = {kept = true}}} {
  nn.parameter @r : tensor<4xf32> {onnx_name = "r", place = #nn.place<@root>}
  nn.parameter @a : tensor<4xf32> {onnx_name = "a", place = #nn.place<@h.0>}
  nn.parameter @b : tensor<4xf32> {onnx_name = "b", place = #nn.place<@h.1>}
  nn.parameter @c : tensor<4xf32> {onnx_name = "c", place = #nn.place<@h.2>}
  nn.parameter @d : tensor<4xf32> {onnx_name = "d", place = #nn.place<@ignored>}
  func.func @microbatch(%g: tensor<4xf32>) {
    %0 = nn.get @r : tensor<4xf32>
    %1 = nn.get @a : tensor<4xf32>
    %2 = nn.get @b : tensor<4xf32>
    %3 = nn.get @c : tensor<4xf32>
    %4 = nn.get @d : tensor<4xf32>
    return
  }
}
