// The gradients of what ranks compute together are each other's.
// RUN: shardonnx-opt %s --nn-differentiate -split-input-file | FileCheck %s
// RUN: shardonnx-opt %s --nn-differentiate --nn-decompose -split-input-file | FileCheck %s --check-prefix=DONE

nn.parameter @w : tensor<1xf32> trainable {onnx_name = "w"}
nn.parameter @part : tensor<4xf32> trainable {onnx_name = "part"}
nn.parameter @whole : tensor<8xf32> trainable {onnx_name = "whole"}

// Each rank's gradient of a value that varies is a summand; that of a sum is
// each summand's. What is whole has its gradient on every rank.
// CHECK-LABEL: func.func @microbatch
// CHECK: %[[PART:.*]] = nn.get @part
// CHECK: %[[VARIES:.*]] = nn.vary
// CHECK: %[[GATHERED:.*]] = nn.all_gather
// CHECK: nn.all_reduce
// CHECK: %[[SEED:.*]] = nn.broadcast {{.*}} -> tensor<4xf32>
// CHECK: %[[BACK:.*]] = nn.all_gather %[[SEED]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<backward>, sections = array<i64: 4, 4>} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: %[[WHOLE:.*]] = nn.mul %[[BACK]], %[[GATHERED]]
// CHECK: nn.grad @whole, %[[WHOLE]]
// CHECK: %[[INNER:.*]] = nn.mul %[[BACK]], %{{.*}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[MINE:.*]] = nn.all_slice %[[INNER]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<backward>, sections = array<i64: 4, 4>} : (tensor<8xf32>) -> tensor<4xf32>
// CHECK: nn.mul %[[MINE]], %[[PART]]
// CHECK: %[[SUMMAND:.*]] = nn.reshape {{.*}} -> tensor<1xf32>
// CHECK: %[[G:.*]] = nn.mul %[[MINE]], %[[VARIES]]
// CHECK: nn.grad @part, %[[G]]
// CHECK: %[[SUM:.*]] = nn.all_reduce %[[SUMMAND]] {axis = "tensor", parts = 2 : i64, place = #nn.place<backward>}
// CHECK: nn.grad @w, %[[SUM]]

// DONE-LABEL: func.func @microbatch
// DONE-NOT: nn.vary
func.func @forward() {
  %w = nn.get @w : tensor<1xf32>
  %p = nn.get @part : tensor<4xf32>
  %u = nn.get @whole : tensor<8xf32>
  %v = nn.vary %w {axis = "tensor", parts = 2 : i64} : (tensor<1xf32>) -> tensor<1xf32>
  %m = nn.mul %v, %p : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = nn.all_gather %m {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4, 4>} : (tensor<4xf32>) -> tensor<8xf32>
  %h = nn.mul %u, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = nn.all_slice %h {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4, 4>} : (tensor<8xf32>) -> tensor<4xf32>
  %l = nn.reduce_sum %s {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %a = nn.all_reduce %l {axis = "tensor", parts = 2 : i64} : (tensor<f32>) -> tensor<f32>
  nn.loss %a {denominator = "batches"} : tensor<f32>
  return
}

// -----

// Each rank computes something else of what is gathered: of its gradient, a rank
// keeps its part of the sum. A part of a sum has its gradient on every rank.

nn.parameter @tokens : tensor<4xf32> trainable {onnx_name = "tokens"}
nn.parameter @half : tensor<8xf32> trainable {onnx_name = "half"}

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[HALF:.*]] = nn.get @half
// CHECK: %[[ALL:.*]] = nn.all_gather {{.*}} sections = array<i64: 8>, varies}
// CHECK: %[[MINE:.*]] = nn.reduce_scatter
// CHECK: %[[SEED:.*]] = nn.broadcast {{.*}} -> tensor<4xf32>
// CHECK: %[[BACK:.*]] = nn.all_gather %[[SEED]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<backward>, sections = array<i64: 8>} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: %[[SUMMAND:.*]] = nn.mul %[[BACK]], %[[HALF]]
// CHECK: nn.mul %[[BACK]], %[[ALL]]
// CHECK: %[[SUM:.*]] = nn.reduce_scatter %[[SUMMAND]] {axis = "tensor", dim = 0 : i64, parts = 2 : i64, place = #nn.place<backward>, sections = array<i64: 8>} : (tensor<8xf32>) -> tensor<4xf32>
// CHECK: nn.grad @tokens, %[[SUM]]
func.func @forward() {
  %t = nn.get @tokens : tensor<4xf32>
  %w = nn.get @half : tensor<8xf32>
  %g = nn.all_gather %t {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 8>, varies} : (tensor<4xf32>) -> tensor<8xf32>
  %m = nn.mul %g, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = nn.reduce_scatter %m {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 8>} : (tensor<8xf32>) -> tensor<4xf32>
  %l = nn.reduce_sum %s {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  %a = nn.all_reduce %l {axis = "tensor", parts = 2 : i64} : (tensor<f32>) -> tensor<f32>
  nn.loss %a {denominator = "batches"} : tensor<f32>
  return
}

// Parts of a sequence become heads and go back; a part of what is summed
// elsewhere has zeros for the others.
// RUN: shardonnx-opt %S/Inputs/context.mlir --nn-differentiate | FileCheck %s --check-prefix=CONTEXT
// CONTEXT-LABEL: func.func @microbatch
// CONTEXT: nn.part_slice
// CONTEXT: nn.all_to_all
// CONTEXT: nn.part_roll
// CONTEXT: nn.part_shift {{.*}} behind = 1 : i64
// CONTEXT: nn.part_shift {{.*}} behind = 3 : i64
// CONTEXT: %[[ROLLED:.*]] = nn.part_roll %{{.*}} {axis = "context", dim = 0 : i64, inverse, parts = 2 : i64
// CONTEXT: %[[BACK:.*]] = nn.all_to_all %[[ROLLED]] {axis = "context", join_dim = 1 : i64, join_sections = array<i64: 2, 2>, parts = 2 : i64, place = #nn.place<backward>, split_dim = 0 : i64, split_sections = array<i64: 6>} : (tensor<6x2xf32>) -> tensor<3x4xf32>
// CONTEXT: %[[PAD:.*]] = nn.part_pad %[[BACK]] {axis = "context", dim = 0 : i64, parts = 2 : i64, place = #nn.place<backward>, sections = array<i64: 6>} : (tensor<3x4xf32>) -> tensor<6x4xf32>
// CONTEXT: nn.grad @w, %[[PAD]]

// -----

// A shared vocabulary: of the rows that are looked up, and of what the head
// reads, each rank has a summand of the gradient; the loss and its gradients are
// one op.

nn.parameter @table : tensor<5x8xf32> trainable {onnx_name = "table"}

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[T:.*]] = nn.get @table
// CHECK: nn.all_gather {{.*}} varies}
// CHECK-NOT: nn.linear_cross_entropy_part %
// CHECK: %[[SUM:.*]], %[[DX:.*]], %[[DW:.*]] = nn.linear_cross_entropy_part_grad %{{.*}}, %[[T]], %arg1, %{{.*}} {axis = "tensor", parts = 2 : i64, place = #nn.place<backward>, transpose_weight}
// CHECK: nn.loss %[[SUM]]
// CHECK: %[[MINE:.*]] = nn.reduce_scatter %[[DX]]
// CHECK: %[[ALL:.*]] = nn.all_gather %[[MINE]]
// CHECK: %[[DT:.*]] = nn.embedding_part_grad %arg0, %[[ALL]] {axis = "tensor", parts = 2 : i64, place = #nn.place<backward>} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<5x8xf32>
// CHECK: %[[BOTH:.*]] = nn.add %[[DW]], %[[DT]]
// CHECK: nn.grad @table, %[[BOTH]]
func.func @forward(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
  %t = nn.get @table : tensor<5x8xf32>
  %x = nn.embedding_part %t, %ids {axis = "tensor", parts = 2 : i64} : (tensor<5x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %m = nn.reduce_scatter %x {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %a = nn.all_gather %m {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4>, varies} : (tensor<2x8xf32>) -> tensor<4x8xf32>
  %l = nn.linear_cross_entropy_part %a, %t, %labels {axis = "tensor", parts = 2 : i64, transpose_weight} : (tensor<4x8xf32>, tensor<5x8xf32>, tensor<4xi64>) -> tensor<f32>
  nn.loss %l {denominator = "batches"} : tensor<f32>
  return
}
