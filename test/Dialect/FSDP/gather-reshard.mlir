// RUN: shardonnx-opt %s -fsdp-gather -fsdp-schedule-gathers -fsdp-to-exec | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-gather -fsdp-print-cost=ranks=8 -o /dev/null | FileCheck %s --check-prefix=COST

// @a is freed between forward and backward, where @b is gathered: each rank
// keeps its part of a group of two. Behind backward nothing is kept, nor where
// nothing is gathered again.
nn.parameter @wa : tensor<16x16xf32> {onnx_name = "wa"}
nn.parameter @wb : tensor<16x16xf32> {onnx_name = "wb"}
fsdp.unit @a sharded f32 reduce f32 length 0 [] frozen 256 [@wa at 0 size 256] reshard_after_forward reshard_group 2
fsdp.unit @b sharded f32 reduce f32 length 0 [] frozen 256 [@wb at 0 size 256] reshard_after_forward reshard_group 2

// CHECK-LABEL: func.func @microbatch
// CHECK:         exec.gather_start @a
// CHECK:         exec.gather_wait @a
// CHECK:         exec.gather_reshard @a
// CHECK-NOT:     exec.gather_reshard
// CHECK:         exec.gather_free @b
// CHECK:         exec.gather_wait @a
// CHECK-NOT:     exec.gather_reshard
// CHECK:         exec.gather_free @a
// CHECK-LABEL: func.func @eval
// CHECK-NOT:     exec.gather_reshard

// 1024 bytes each. Eight ranks gather @a and @b: 7/8 of 2048 bytes = 1792; two
// of them @a again: half of 1024 = 512.
// COST:      bytes that each of 8 ranks sends in a step:
// COST-NEXT:   all_gather      2304{{$}}
func.func @microbatch(%x: tensor<4x16xf32>) {
  %wa = nn.get @wa : tensor<16x16xf32>
  %wb = nn.get @wb : tensor<16x16xf32>
  %y = nn.matmul %x, %wa : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %z = nn.matmul %y, %wb : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %dz = nn.fused rows [4, 16] (%p = %z : tensor<4x16xf32>, %q = %seed : tensor<f32>) -> tensor<4x16xf32> attributes {place = #nn.place<backward>} {
    %s = nn.mul %p, %q : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    nn.yield %s : tensor<4x16xf32>
  }
  %dy = nn.matmul %dz, %wb {place = #nn.place<backward>, transpose_rhs} : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %dx = nn.matmul %dy, %wa {place = #nn.place<backward>, transpose_rhs} : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  return
}
func.func @eval(%x: tensor<4x16xf32>) {
  %wa = nn.get @wa : tensor<16x16xf32>
  %y = nn.matmul %x, %wa : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  return
}
