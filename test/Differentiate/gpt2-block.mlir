// RUN: shardonnx-opt %s --nn-attach-loss --nn-differentiate --canonicalize --cse 2>/dev/null | FileCheck %s
// RUN: shardonnx-opt %s --nn-attach-loss --nn-assign-dtypes=param-dtype=bf16 --nn-differentiate --canonicalize --cse 2>/dev/null | FileCheck %s --check-prefix=BF16
//
// One GPT-2 block with a tied head: order of gradients, units, saved values.

// CHECK: nn.untrained = [{name = "unused", reason = "does not reach the loss"}]
// CHECK: nn.parameter @unused : tensor<8x8xf32> {onnx_name = "unused"}

// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: %[[IDS:.*]]: tensor<2x4xi64> {nn.kind = "tokens", nn.name = "input_ids"}, %[[LABELS:.*]]: tensor<2x4xi64> {nn.kind = "labels", nn.name = "labels"})
// CHECK: %[[WTE:.*]] = nn.get @wte
// CHECK: %[[QKVW:.*]] = nn.get @qkv.w
// CHECK: nn.attention
// CHECK-NOT: nn.linear_cross_entropy %
// CHECK: %[[SCALE:.*]] = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
// CHECK: %[[SUM:.*]], %[[DX:.*]], %[[DHEAD:.*]] = nn.linear_cross_entropy_grad %{{.*}}, %[[WTE]], %{{.*}}, %[[SCALE]] {place = #nn.place<backward>, transpose_weight}
// CHECK-NEXT: nn.loss %[[SUM]] {denominator = "labels", denominator_arg = 1 : i64, place = #nn.place<backward>} : tensor<f32>
// CHECK-NOT: @frozen
// CHECK: %[[DOW:.*]] = nn.matmul %{{.*}}, %{{.*}} {place = #nn.place<@h.0, backward>, transpose_lhs}
// CHECK-NEXT: nn.grad @o.w, %[[DOW]] {place = #nn.place<@h.0, backward>} : tensor<8x8xf32>
// CHECK: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_grad
// The three slices of one projection are joined, not padded and added.
// CHECK-NOT: nn.pad
// CHECK: nn.concat %[[DQ]], %[[DK]], %[[DV]] {axis = 2 : i64, place = #nn.place<@h.0, backward>}
// CHECK: nn.grad @qkv.b
// CHECK: nn.matmul %{{.*}}, %[[QKVW]] {place = #nn.place<@h.0, backward>, transpose_rhs}
// CHECK: nn.grad @qkv.w
// CHECK: nn.grad @ln.w
// CHECK: nn.grad @ln.b
// CHECK: nn.grad @wpe
// The tied table: the head's gradient and the lookup's.
// CHECK: %[[DTABLE:.*]] = nn.embedding_grad %[[IDS]]
// CHECK: %[[DWTE:.*]] = nn.add %[[DHEAD]], %[[DTABLE]]
// CHECK-NEXT: nn.grad @wte, %[[DWTE]] {place = #nn.place<backward>} : tensor<32x8xf32>
// CHECK-NOT: nn.grad

// CHECK-LABEL: func.func @eval(
// CHECK: %[[EVALSUM:.*]] = nn.linear_cross_entropy %
// CHECK-NEXT: nn.loss %[[EVALSUM]]
// CHECK-NOT: nn.grad

// Activations and weights in bf16, weight gradients leave in f32.
// BF16: module attributes {{.*}}nn.reduce_dtype = f32,
// BF16: nn.parameter @wte : tensor<32x8xf32> trainable
// BF16-LABEL: func.func @microbatch
// BF16: nn.get @wte : tensor<32x8xbf16>
// BF16: nn.layer_norm {{.*}} -> (tensor<2x4x8xbf16>, tensor<2x4x1xf32>, tensor<2x4x1xf32>)
// BF16: nn.attention {{.*}} -> (tensor<2x4x2x4xbf16>, tensor<2x2x4xf32>)
// BF16: nn.linear_cross_entropy_grad {{.*}} -> (tensor<f32>, tensor<8x8xbf16>, tensor<32x8xf32>)
// BF16: nn.matmul {{.*}}transpose_lhs} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
// BF16-NEXT: nn.grad @o.w, {{.*}} : tensor<8x8xf32>
// BF16: nn.grad @qkv.b, {{.*}} : tensor<24xf32>

nn.parameter @wte : tensor<32x8xf32> trainable {onnx_name = "wte"}
nn.parameter @wpe : tensor<4x8xf32> trainable {onnx_name = "wpe"}
nn.parameter @ln.w : tensor<8xf32> trainable {onnx_name = "ln.w", place = #nn.place<@h.0>}
nn.parameter @ln.b : tensor<8xf32> trainable {onnx_name = "ln.b", place = #nn.place<@h.0>}
nn.parameter @qkv.w : tensor<8x24xf32> trainable {onnx_name = "qkv.w", place = #nn.place<@h.0>}
nn.parameter @qkv.b : tensor<24xf32> trainable {onnx_name = "qkv.b", place = #nn.place<@h.0>}
nn.parameter @o.w : tensor<8x8xf32> trainable {onnx_name = "o.w", place = #nn.place<@h.0>}
nn.parameter @unused : tensor<8x8xf32> trainable {onnx_name = "unused"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids", nn.kind = "tokens"}) -> (tensor<2x4x32xf32> {nn.name = "logits"}) {
  %wte = nn.get @wte : tensor<32x8xf32>
  %e = nn.embedding %wte, %ids : (tensor<32x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  %wpe = nn.get @wpe : tensor<4x8xf32>
  %x = nn.add %e, %wpe : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  %w = nn.get @ln.w {place = #nn.place<@h.0>} : tensor<8xf32>
  %b = nn.get @ln.b {place = #nn.place<@h.0>} : tensor<8xf32>
  %n, %mean, %rstd = nn.layer_norm %x, %w, %b {epsilon = 1.0e-5 : f32, place = #nn.place<@h.0>} : (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>)
  %n2 = nn.reshape %n {place = #nn.place<@h.0>} : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %qw = nn.get @qkv.w {place = #nn.place<@h.0>} : tensor<8x24xf32>
  %qb = nn.get @qkv.b {place = #nn.place<@h.0>} : tensor<24xf32>
  %qkv0 = nn.matmul %n2, %qw {place = #nn.place<@h.0>} : (tensor<8x8xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  %qkv1 = nn.add %qkv0, %qb {place = #nn.place<@h.0>} : (tensor<8x24xf32>, tensor<24xf32>) -> tensor<8x24xf32>
  %qkv = nn.reshape %qkv1 {place = #nn.place<@h.0>} : tensor<8x24xf32> -> tensor<2x4x6x4xf32>
  %q = nn.slice %qkv {offsets = array<i64: 0, 0, 0, 0>, place = #nn.place<@h.0>, sizes = array<i64: 2, 4, 2, 4>} : (tensor<2x4x6x4xf32>) -> tensor<2x4x2x4xf32>
  %k = nn.slice %qkv {offsets = array<i64: 0, 0, 2, 0>, place = #nn.place<@h.0>, sizes = array<i64: 2, 4, 2, 4>} : (tensor<2x4x6x4xf32>) -> tensor<2x4x2x4xf32>
  %v = nn.slice %qkv {offsets = array<i64: 0, 0, 4, 0>, place = #nn.place<@h.0>, sizes = array<i64: 2, 4, 2, 4>} : (tensor<2x4x6x4xf32>) -> tensor<2x4x2x4xf32>
  %a, %lse = nn.attention %q, %k, %v {causal, place = #nn.place<@h.0>, scale = 0.5 : f32} : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
  %a2 = nn.reshape %a {place = #nn.place<@h.0>} : tensor<2x4x2x4xf32> -> tensor<8x8xf32>
  %ow = nn.get @o.w {place = #nn.place<@h.0>} : tensor<8x8xf32>
  %o = nn.matmul %a2, %ow {place = #nn.place<@h.0>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = nn.gelu %o {place = #nn.place<@h.0>, tanh} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %fr = nn.get @frozen {place = #nn.place<@h.0>} : tensor<8xf32>
  %g1 = nn.mul %g, %fr {place = #nn.place<@h.0>} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %g2 = nn.reshape %g1 {place = #nn.place<@h.0>} : tensor<8x8xf32> -> tensor<2x4x8xf32>
  %y = nn.add %x, %g2 {place = #nn.place<@h.0>} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y2 = nn.reshape %y : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %l = nn.matmul %y2, %wte {transpose_rhs} : (tensor<8x8xf32>, tensor<32x8xf32>) -> tensor<8x32xf32>
  %logits = nn.reshape %l : tensor<8x32xf32> -> tensor<2x4x32xf32>
  return %logits : tensor<2x4x32xf32>
}
