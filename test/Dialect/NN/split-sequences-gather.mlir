// RUN: shardonnx-opt %s "-nn-split-sequences=context=2 attention=all-gather" -split-input-file -verify-diagnostics | FileCheck %s

// All keys on each rank, its own last, of which those before come from ranks
// behind it.

// CHECK-LABEL: func.func @heads
// CHECK-SAME: %{{.*}}, %[[KEYS:.*]]: tensor<1x1x4x1xi32>, %[[BIAS:.*]]: tensor<4x4xf32>
func.func @heads(%ids: tensor<1x4xi64>, %keys: tensor<1x1x4x1xi32>, %bias: tensor<4x4xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  // CHECK: %[[Q:.*]] = nn.reshape {{.*}} -> tensor<1x2x3x2xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  // CHECK: %[[ALL:.*]] = nn.constant dense<[2, 0]> : tensor<2xi32>
  // CHECK: %[[FIRST:.*]] = nn.part_slice %[[ALL]]
  // CHECK: %[[F:.*]] = nn.reshape %[[FIRST]] : tensor<1xi32> -> tensor<1x1x1x1xi32>
  // CHECK: %[[MASK:.*]] = nn.broadcast %[[F]] : tensor<1x1x1x1xi32> -> tensor<1x1x2x1xi32>
  // CHECK: %[[K:.*]] = nn.all_gather %[[Q]] {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4>, varies} : (tensor<1x2x3x2xf32>) -> tensor<1x4x3x2xf32>
  // CHECK: %[[ROLLED:.*]] = nn.part_roll %[[K]] {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4>}
  // CHECK: nn.attention %[[Q]], %[[ROLLED]], %{{.*}}, %[[MASK]] {causal, {{.*}}window = 2
  // CHECK-SAME: -> (tensor<1x2x3x2xf32>, tensor<1x3x2xf32>)
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal, window = 2 : i64} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  // Documents.
  // CHECK: %[[ROWS:.*]] = nn.part_slice %[[KEYS]] {axis = "context", dim = 2 : i64
  // CHECK: %[[SHIFTED:.*]] = nn.add %[[ROWS]]
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[SHIFTED]]
  %1:2 = nn.attention %0#0, %0#0, %0#0, %keys {scale = 1.0 : f32, causal} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x1x4x1xi32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  // Where all is seen, keys stay in order.
  // CHECK-NOT: nn.part_roll
  // CHECK: %[[B:.*]] = nn.part_slice %[[BIAS]] {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[B]]
  %2:2 = nn.attention %1#0, %1#0, %1#0, %bias {scale = 1.0 : f32} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}

// -----

func.func @masked(%ids: tensor<1x4xi64>, %bias: tensor<4x4xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  // expected-error @below {{--mesh: context:2 has all keys on each rank only where there is no mask or window beside a causal one; leave --context-attention=all-gather out}}
  %0:2 = nn.attention %q, %q, %q, %bias {scale = 1.0 : f32, causal} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
