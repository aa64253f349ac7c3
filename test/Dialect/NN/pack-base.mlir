// RUN: shardonnx-opt %s -nn-pack-base=packing=nf4 -nn-differentiate -fsdp-shard | FileCheck %s
// RUN: shardonnx-opt %s -nn-pack-base | FileCheck %s --check-prefix=NOTHING

// 64 x 64 weights take 2048 bytes of codes, one group's scale and the mean, and
// 64 blocks' bytes: 530 words, which are 1060 elements of a bf16 section. The
// head is no base, and what is trained is not packed.
// CHECK:      fsdp.unit @root sharded bf16
// CHECK:      frozen 6656 [
// CHECK-NEXT: @linear.weight at 0 size 1060
// CHECK-NEXT: @conv.weight at 1280 size 1060
// CHECK-NEXT: @head.weight at 2560 size 4096
// NOTHING-NOT: nn.unpack
nn.parameter @linear.weight : tensor<64x64xf32> {nn.base, onnx_name = "l", place = #nn.place<@root>}
nn.parameter @conv.weight : tensor<64x64xf32> {nn.base, onnx_name = "c", place = #nn.place<@root>}
nn.parameter @trained.weight : tensor<64x64xf32> trainable {nn.base, onnx_name = "t", place = #nn.place<@root>}
nn.parameter @head.weight : tensor<64x64xf32> {onnx_name = "h", place = #nn.place<@root>}

// Forward and backward decode for themselves, right before they multiply; a
// weight [in, out] is packed as [out, in]. No frozen weight has a gradient.
// CHECK-LABEL: func.func @microbatch
// CHECK:      fsdp.view {{.*}}[@trained.weight] : tensor<64x64xbf16>
// CHECK:      fsdp.view {{.*}}[@linear.weight] : tensor<530xi32>
// CHECK:      %[[W:.*]] = nn.unpack {{.*}}packing = "nf4"{{.*}} -> tensor<64x64xbf16>
// CHECK-NEXT: nn.matmul {{.*}}, %[[W]] {{.*}}transpose_rhs
// CHECK:      %[[C:.*]] = nn.unpack
// CHECK-NEXT: nn.matmul {{.*}}, %[[C]] {{.*}}transpose_rhs
// CHECK:      nn.unpack
// CHECK:      nn.unpack
// CHECK-NOT:  nn.unpack
// CHECK:      fsdp.reduce_scatter @root [@trained.weight]
// CHECK-LABEL: func.func @eval
// CHECK-COUNT-2: nn.unpack
func.func @forward(%x: tensor<4x64xbf16>, %labels: tensor<4xi64>) {
  %t = nn.get @trained.weight {place = #nn.place<@root>} : tensor<64x64xbf16>
  %l = nn.get @linear.weight {place = #nn.place<@root>} : tensor<64x64xbf16>
  %c = nn.get @conv.weight {place = #nn.place<@root>} : tensor<64x64xbf16>
  %h = nn.get @head.weight {place = #nn.place<@root>} : tensor<64x64xbf16>
  %0 = nn.matmul %x, %t {place = #nn.place<@root>} : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %1 = nn.matmul %0, %l {place = #nn.place<@root>, transpose_rhs} : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %2 = nn.matmul %1, %c {place = #nn.place<@root>} : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %3 = nn.matmul %2, %h {place = #nn.place<@root>, transpose_rhs} : (tensor<4x64xbf16>, tensor<64x64xbf16>) -> tensor<4x64xbf16>
  %s = nn.cross_entropy %3, %labels {place = #nn.place<@root>} : (tensor<4x64xbf16>, tensor<4xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64, place = #nn.place<@root>} : tensor<f32>
  return
}
