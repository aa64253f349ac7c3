// The way that attention takes over ranks, by what they send and by predicted
// time.
// RUN: shardonnx-opt %s --split-input-file --nn-split-sequences="context=4" | FileCheck %s --check-prefixes=CHECK,BYTES
// RUN: shardonnx-opt %s --split-input-file --nn-split-sequences="context=4 device=h100" | FileCheck %s --check-prefixes=CHECK,TIME
// RUN: not shardonnx-opt %s --split-input-file --nn-split-sequences="context=4 device=abacus" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: nn-split-sequences: no device is called abacus

// 8 key/value heads for 32. By heads a rank sends 3/4 of 8,192 + 2,048 elements
// a token twice, in a ring 3 times 3 times 2,048. But a block without a causal
// mask makes more FLOPs a second than one with it, which is worth more.
// CHECK-LABEL: func.func @long
// BYTES: nn.all_to_all
// BYTES-NOT: nn.ring_attention
// TIME: nn.ring_attention {{.*}} zigzag}
// TIME-NOT: nn.all_to_all
func.func @long(%ids: tensor<1x131072xi64>) {
  %w = nn.get @w : tensor<16x4096xbf16>
  %e = nn.embedding %w, %ids : (tensor<16x4096xbf16>, tensor<1x131072xi64>) -> tensor<1x131072x4096xbf16>
  %q = nn.reshape %e : tensor<1x131072x4096xbf16> -> tensor<1x131072x32x128xbf16>
  %v = nn.get @v : tensor<4096x1024xbf16>
  %kv = nn.matmul %e, %v : (tensor<1x131072x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<1x131072x1024xbf16>
  %k = nn.reshape %kv : tensor<1x131072x1024xbf16> -> tensor<1x131072x8x128xbf16>
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f32, causal} : (tensor<1x131072x32x128xbf16>, tensor<1x131072x8x128xbf16>, tensor<1x131072x8x128xbf16>) -> (tensor<1x131072x32x128xbf16>, tensor<1x32x131072xf32>)
  return
}
nn.parameter @w : tensor<16x4096xf32> trainable {onnx_name = "w"}
nn.parameter @v : tensor<4096x1024xf32> trainable {onnx_name = "v"}

// -----

// One key/value head for 32: a ring sends less. Of 1,024 tokens, its short blocks
// and the latency of each step take longer.
// CHECK-LABEL: func.func @short
// BYTES: nn.ring_attention {{.*}} zigzag}
// TIME: nn.all_to_all
// TIME-NOT: nn.ring_attention
func.func @short(%ids: tensor<1x1024xi64>) {
  %w = nn.get @w : tensor<16x4096xbf16>
  %e = nn.embedding %w, %ids : (tensor<16x4096xbf16>, tensor<1x1024xi64>) -> tensor<1x1024x4096xbf16>
  %q = nn.reshape %e : tensor<1x1024x4096xbf16> -> tensor<1x1024x32x128xbf16>
  %v = nn.get @v : tensor<4096x128xbf16>
  %kv = nn.matmul %e, %v : (tensor<1x1024x4096xbf16>, tensor<4096x128xbf16>) -> tensor<1x1024x128xbf16>
  %k = nn.reshape %kv : tensor<1x1024x128xbf16> -> tensor<1x1024x1x128xbf16>
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f32, causal} : (tensor<1x1024x32x128xbf16>, tensor<1x1024x1x128xbf16>, tensor<1x1024x1x128xbf16>) -> (tensor<1x1024x32x128xbf16>, tensor<1x32x1024xf32>)
  return
}
nn.parameter @w : tensor<16x4096xf32> trainable {onnx_name = "w"}
nn.parameter @v : tensor<4096x128xf32> trainable {onnx_name = "v"}
