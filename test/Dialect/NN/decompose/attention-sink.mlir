// RUN: shardonnx-opt %s -nn-decompose | FileCheck %s

// What kernels compute of attention with a sink is attention without; the
// larger of its log-sum-exp and the sink is what both are counted from.

// CHECK-LABEL: func.func @causal
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x2x2xbf16>, %[[K:.*]]: tensor<1x4x1x2xbf16>, %[[S:.*]]: tensor<2xf32>)
func.func @causal(%q: tensor<1x4x2x2xbf16>, %k: tensor<1x4x1x2xbf16>, %s: tensor<2xf32>) -> (tensor<1x4x2x2xbf16>, tensor<1x2x4xf32>) {
  // CHECK: %[[A:.*]], %[[L:.*]] = nn.attention %[[Q]], %[[K]], %[[K]] {causal, scale = 1.000000e+00 : f32} :
  // CHECK: %[[SINK:.*]] = nn.reshape %[[S]] : tensor<2xf32> -> tensor<2x1xf32>
  // CHECK: %[[PEAK:.*]] = nn.max %[[L]], %[[SINK]]
  // CHECK: %[[KEYS:.*]] = nn.exp
  // CHECK: %[[SUM:.*]] = nn.add %[[KEYS]]
  // CHECK: %[[SHARE:.*]] = nn.div %[[KEYS]], %[[SUM]]
  // CHECK: nn.transpose %[[SHARE]] {permutation = array<i64: 0, 2, 1>}
  // CHECK: nn.mul {{.*}} : (tensor<1x4x2x2xf32>, tensor<1x4x2x1xf32>)
  // CHECK: nn.cast {{.*}} -> tensor<1x4x2x2xbf16>
  // CHECK: nn.log %[[SUM]]
  %0:2 = nn.attention %q, %k, %k sink(%s) {scale = 1.0 : f32, causal} : (tensor<1x4x2x2xbf16>, tensor<1x4x1x2xbf16>, tensor<1x4x1x2xbf16>, tensor<2xf32>) -> (tensor<1x4x2x2xbf16>, tensor<1x2x4xf32>)
  return %0#0, %0#1 : tensor<1x4x2x2xbf16>, tensor<1x2x4xf32>
}

// In a ring all keys come first.

// CHECK-LABEL: func.func @ring
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x2x2xf32>, %[[S:.*]]: tensor<2xf32>)
func.func @ring(%q: tensor<1x4x2x2xf32>, %s: tensor<2xf32>) -> tensor<1x4x2x2xf32> {
  // CHECK-COUNT-2: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {scale
  // CHECK-NOT: nn.attention
  // CHECK: %[[SINK:.*]] = nn.reshape %[[S]] : tensor<2xf32> -> tensor<2x1xf32>
  // CHECK: nn.max %{{.*}}, %[[SINK]]
  %0:2 = nn.ring_attention %q, %q, %q sink(%s) {scale = 1.0 : f32, axis = "context", parts = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x4x2x2xf32>
}
