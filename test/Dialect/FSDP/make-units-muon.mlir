// RUN: shardonnx-opt %s -split-input-file -fsdp-make-units=muon=true | FileCheck %s
// RUN: shardonnx-opt %s -split-input-file -fsdp-make-units | FileCheck %s --check-prefix=NONE

// Matrices below a numbered module come first; a norm, a table of embeddings
// and the head do not count, wherever they are.
nn.parameter @h.0.norm.weight : tensor<16xf32> trainable {onnx_name = "a", place = #nn.place<@u>}
nn.parameter @h.0.fc.weight : tensor<16x24xf32> trainable {onnx_name = "b", place = #nn.place<@u>}
nn.parameter @h.0.table.weight : tensor<5x16xf32> trainable {onnx_name = "c", place = #nn.place<@u>}
nn.parameter @head.weight : tensor<16x8xf32> trainable {onnx_name = "d", place = #nn.place<@root>}
// CHECK:      fsdp.unit @u sharded f32 reduce f32 length 1024 [
// CHECK-NEXT:   @h.0.fc.weight at 0 size 384,
// CHECK-NEXT:   @h.0.norm.weight at 512 size 16,
// CHECK-NEXT:   @h.0.table.weight at 768 size 80
// CHECK-NEXT: ] matrices 512
// CHECK:      fsdp.unit @root sharded
// CHECK-NOT:  matrices
// NONE-NOT:   matrices
func.func @microbatch(%ids: tensor<2xi32>, %a: tensor<16xf32>, %b: tensor<16x24xf32>, %c: tensor<5x16xf32>, %d: tensor<16x8xf32>) {
  %0 = nn.get @h.0.norm.weight : tensor<16xf32>
  %1 = nn.get @h.0.fc.weight : tensor<16x24xf32>
  %2 = nn.get @h.0.table.weight : tensor<5x16xf32>
  %3 = nn.embedding %2, %ids : (tensor<5x16xf32>, tensor<2xi32>) -> tensor<2x16xf32>
  %4 = nn.get @head.weight : tensor<16x8xf32>
  nn.grad @h.0.norm.weight, %a : tensor<16xf32>
  nn.grad @h.0.fc.weight, %b : tensor<16x24xf32>
  nn.grad @h.0.table.weight, %c : tensor<5x16xf32>
  nn.grad @head.weight, %d : tensor<16x8xf32>
  return
}
