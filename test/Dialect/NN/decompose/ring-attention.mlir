// RUN: shardonnx-opt %s -nn-decompose -cse | FileCheck %s

// Of two ranks, each with an early and a late chunk of two tokens.

// CHECK-LABEL: func.func @causal
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x2x2xf32>, %[[K:.*]]: tensor<1x4x1x2xf32>, %[[V:.*]]: tensor<1x4x1x2xf32>
func.func @causal(%q: tensor<1x4x2x2xf32>, %k: tensor<1x4x1x2xf32>, %v: tensor<1x4x1x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>) {
  // A rank's own chunks.
  // CHECK: nn.attention %[[Q]], %[[K]], %[[V]] {causal, scale
  // The other's keys: half of all, in two tensors.
  // CHECK: %[[K1:.*]] = nn.part_shift %[[K]] {axis = "context", behind = 1 : i64, parts = 2 : i64}
  // CHECK: %[[V1:.*]] = nn.part_shift %[[V]] {axis = "context", behind = 1 : i64, parts = 2 : i64}
  // Late queries see early keys.
  // CHECK: %[[LATE:.*]] = nn.slice %[[Q]] {offsets = array<i64: 0, 2, 0, 0>
  // CHECK: %[[EARLYKEYS:.*]] = nn.slice %[[K1]] {offsets = array<i64: 0, 0, 0, 0>
  // CHECK: %[[EARLYVALUES:.*]] = nn.slice %[[V1]] {offsets = array<i64: 0, 0, 0, 0>
  // CHECK: nn.attention %[[LATE]], %[[EARLYKEYS]], %[[EARLYVALUES]] {scale
  // The others are chosen by rank.
  // CHECK: %[[RANK:.*]] = nn.part_slice %{{.*}} -> tensor<1xi32>
  // CHECK: %[[EARLIER:.*]] = nn.compare ge %[[RANK]]
  // CHECK: %[[EARLY:.*]] = nn.slice %[[Q]] {offsets = array<i64: 0, 0, 0, 0>
  // CHECK: %[[QS:.*]] = nn.select %[[EARLIER]], %[[EARLY]], %[[LATE]]
  // CHECK: %[[LATEKEYS:.*]] = nn.slice %[[K1]] {offsets = array<i64: 0, 2, 0, 0>
  // CHECK: %[[KS:.*]] = nn.select %[[EARLIER]], %[[EARLYKEYS]], %[[LATEKEYS]]
  // CHECK: %[[VS:.*]] = nn.select %[[EARLIER]], %[[EARLYVALUES]], %{{.*}}
  // CHECK: %[[R:.*]], %[[L:.*]] = nn.attention %[[QS]], %[[KS]], %[[VS]] {scale
  // CHECK: nn.select %[[EARLIER]], %[[L]], %[[NONE:.*]] :
  // CHECK: nn.select %[[EARLIER]], %[[NONE]], %[[L]]
  // CHECK: nn.concat {{.*}} -> tensor<1x4x2x2xf32>
  // CHECK: nn.concat {{.*}} -> tensor<1x2x4xf32>
  %0:2 = nn.ring_attention %q, %k, %v {scale = 1.0 : f32, causal, zigzag, axis = "context", parts = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  return %0#0, %0#1 : tensor<1x4x2x2xf32>, tensor<1x2x4xf32>
}

// Gradients of the other's keys go back to it.

// CHECK-LABEL: func.func @gradient
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x2x2xf32>, %[[K:.*]]: tensor<1x4x1x2xf32>, %[[O:.*]]: tensor<1x4x2x2xf32>, %[[L:.*]]: tensor<1x2x4xf32>, %[[G:.*]]: tensor<1x4x2x2xf32>
func.func @gradient(%q: tensor<1x4x2x2xf32>, %k: tensor<1x4x1x2xf32>, %o: tensor<1x4x2x2xf32>, %l: tensor<1x2x4xf32>, %g: tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>) {
  // CHECK: nn.attention_grad %[[Q]], %[[K]], %[[K]], %[[O]], %[[L]], %[[G]] {causal
  // Keys come again.
  // CHECK: nn.part_shift %[[K]] {{.*}} place = #nn.place<recompute>}
  // CHECK: %{{.*}}, %[[DK:.*]], %[[DV:.*]] = nn.attention_grad {{.*}} -> (tensor<1x2x2x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>)
  // CHECK: %{{.*}}, %[[DKS:.*]], %[[DVS:.*]] = nn.attention_grad
  // CHECK: %[[EARLY:.*]] = nn.select %[[EARLIER:.*]], %[[DKS]], %[[ZERO:[a-z0-9_]+]] {
  // CHECK: %[[SUM:.*]] = nn.add %[[DK]], %[[EARLY]] {
  // CHECK: %[[LATE:.*]] = nn.select %[[EARLIER]], %[[ZERO]], %[[DKS]] {
  // CHECK: %[[BOTH:[0-9a-z]+]] = nn.concat %[[SUM]], %[[LATE]] {axis = 1 : i64, place
  // CHECK: nn.part_shift %[[BOTH]] {axis = "context", behind = 1 : i64, parts = 2 : i64, place = #nn.place<backward>} : (tensor<1x4x1x2xf32>)
  // CHECK: nn.part_shift {{.*}} : (tensor<1x4x1x2xf32>)
  // CHECK-NOT: nn.part_shift
  %0:3 = nn.ring_attention_grad %q, %k, %k, %o, %l, %g {scale = 1.0 : f32, causal, zigzag, axis = "context", parts = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x2x2xf32>, tensor<1x2x4xf32>, tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>)
  return %0#0, %0#1, %0#2 : tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
}

// A window of two reaches the chunk before alone: early keys of the rank before,
// late ones of the rank after. Nothing else is sent or computed.

// CHECK-LABEL: func.func @window
func.func @window(%q: tensor<1x4x2x2xf32>, %k: tensor<1x4x1x2xf32>, %f: tensor<1x1x4x1xi32>) -> tensor<1x4x2x2xf32> {
  // CHECK: nn.attention {{.*}} {causal
  // CHECK: %[[BEFORE:.*]] = nn.part_shift {{.*}} behind = 1 : i64, parts = 4 : i64} : (tensor<1x2x1x2xf32>)
  // Ranks that the axis has gone around for see nothing.
  // CHECK: %[[EARLIER:.*]] = nn.compare ge
  // CHECK: %[[HIDES:.*]] = nn.select %[[EARLIER]], %{{.*}}, %[[ALL:.*]] : (tensor<1xi1>, tensor<1x1x2x1xi32>, tensor<1xi32>)
  // CHECK: nn.attention %{{.*}}, %[[BEFORE]], %[[BEFORE]], %[[HIDES]]
  // CHECK: %[[AFTER:.*]] = nn.part_shift {{.*}} behind = 3 : i64, parts = 4 : i64} : (tensor<1x2x1x2xf32>)
  // CHECK: nn.attention %{{.*}}, %[[AFTER]], %[[AFTER]]
  // CHECK-NOT: nn.part_shift
  // CHECK-NOT: nn.attention
  %0:2 = nn.ring_attention %q, %k, %k, %f {scale = 1.0 : f32, causal, zigzag, axis = "context", parts = 4 : i64, window = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>, tensor<1x1x4x1xi32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x4x2x2xf32>
}

// What is not causal sees all of every rank; a mask is cut by the keys of each.

// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[Q:.*]]: tensor<1x2x2x2xf32>, %[[M:.*]]: tensor<1x1x1x6xi1>
func.func @masked(%q: tensor<1x2x2x2xf32>, %m: tensor<1x1x1x6xi1>) -> tensor<1x2x2x2xf32> {
  // CHECK: %[[OWN:.*]] = nn.part_slice %[[M]] {axis = "context", dim = 3 : i64, parts = 3 : i64, sections = array<i64: 6>} : (tensor<1x1x1x6xi1>) -> tensor<1x1x1x2xi1>
  // CHECK: nn.attention %[[Q]], %[[Q]], %[[Q]], %[[OWN]] {scale
  // CHECK: %[[K1:.*]] = nn.part_shift %[[Q]] {axis = "context", behind = 1
  // CHECK: %[[M1:.*]] = nn.part_slice %[[M]] {axis = "context", behind = 1 : i64
  // CHECK: nn.attention %[[Q]], %[[K1]], %[[K1]], %[[M1]] {scale
  // CHECK: nn.part_shift %[[Q]] {axis = "context", behind = 2
  %0:2 = nn.ring_attention %q, %q, %q, %m {scale = 1.0 : f32, axis = "context", parts = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x1x1x6xi1>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2xf32>)
  return %0#0 : tensor<1x2x2x2xf32>
}
