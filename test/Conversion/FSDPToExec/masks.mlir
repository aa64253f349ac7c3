// RUN: shardonnx-opt %s -fsdp-to-exec | FileCheck %s

// Padding masks are ones where nothing is said of them; a mask that chooses
// tokens is data, and one that says what each query sees.
// CHECK: exec.input 0 "attention_mask" "attention_mask"
// CHECK: exec.input 1 "decoder_attention_mask" "attention_mask"
// CHECK: exec.input 2 "global_attention_mask" "data"
// CHECK: exec.input 3 "attention_mask" "data"
func.func @eval(%padding: tensor<2x3xf32> {nn.name = "attention_mask"},
                %decoder: tensor<2x3xf32> {nn.name = "decoder_attention_mask"},
                %global: tensor<2x3xf32> {nn.name = "global_attention_mask"},
                %keys: tensor<2x1x3x3xf32> {nn.name = "attention_mask"}) {
  return
}
