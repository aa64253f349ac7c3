// A large table of embeddings is a unit of its own; one that the head shares,
// a smaller one, and a rule beside `block` leave it in the root.
// RUN: shardonnx-opt %s -nn-assign-units=unit=block | FileCheck %s
// RUN: shardonnx-opt %s '-nn-assign-units=unit=block,size:1000000000000' | FileCheck %s --check-prefix=RULES

// CHECK: nn.parameter @model.embed_tokens.weight {{.*}}#nn.place<@model.embed_tokens>
// CHECK: nn.parameter @model.tied.weight {{.*}}#nn.place<@root>
// CHECK: nn.parameter @model.positions.weight {{.*}}#nn.place<@root>
// CHECK: nn.embedding {{.*}}#nn.place<@model.embed_tokens>
// CHECK: nn.embedding {{.*}}#nn.place<@root>
// CHECK: nn.matmul {{.*}}#nn.place<@root>
// RULES: nn.parameter @model.embed_tokens.weight {{.*}}#nn.place<@root>
nn.parameter @model.embed_tokens.weight : tensor<131072x2048xf32> trainable {onnx_name = "a"}
nn.parameter @model.tied.weight : tensor<131072x2048xf32> trainable {onnx_name = "b"}
nn.parameter @model.positions.weight : tensor<16x2048xf32> trainable {onnx_name = "c"}
nn.parameter @model.layers.0.weight : tensor<2048xf32> trainable {onnx_name = "d"}
func.func @forward(%ids: tensor<16xi64>) -> tensor<16x131072xf32> {
  %a = nn.get @model.embed_tokens.weight : tensor<131072x2048xf32>
  %b = nn.get @model.tied.weight : tensor<131072x2048xf32>
  %c = nn.get @model.positions.weight : tensor<16x2048xf32>
  %d = nn.get @model.layers.0.weight : tensor<2048xf32>
  %0 = nn.embedding %a, %ids {place = #nn.place<"model.embed_tokens">} : (tensor<131072x2048xf32>, tensor<16xi64>) -> tensor<16x2048xf32>
  %1 = nn.embedding %b, %ids {place = #nn.place<"model.tied">} : (tensor<131072x2048xf32>, tensor<16xi64>) -> tensor<16x2048xf32>
  %2 = nn.embedding %c, %ids {place = #nn.place<"model.positions">} : (tensor<16x2048xf32>, tensor<16xi64>) -> tensor<16x2048xf32>
  %3 = nn.add %0, %1 {place = #nn.place<"model.layers.0">} : (tensor<16x2048xf32>, tensor<16x2048xf32>) -> tensor<16x2048xf32>
  %4 = nn.mul %3, %d {place = #nn.place<"model.layers.0">} : (tensor<16x2048xf32>, tensor<2048xf32>) -> tensor<16x2048xf32>
  %5 = nn.add %4, %2 {place = #nn.place<"model">} : (tensor<16x2048xf32>, tensor<16x2048xf32>) -> tensor<16x2048xf32>
  %6 = nn.matmul %5, %b {place = #nn.place<"lm_head">, transpose_rhs} : (tensor<16x2048xf32>, tensor<131072x2048xf32>) -> tensor<16x131072xf32>
  return %6 : tensor<16x131072xf32>
}
