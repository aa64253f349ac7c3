// Every attention reads the argument of first keys.
// RUN: shardonnx-opt %s --nn-document-masks=separator=3 | FileCheck %s
// RUN: shardonnx-opt %s --nn-document-masks="separator=3 max-documents=3" | FileCheck %s --check-prefix=MOST
// RUN: shardonnx-opt %s --nn-document-masks="separator=3 max-documents=0" | FileCheck %s --check-prefix=OWN
// RUN: shardonnx-opt %s --nn-document-masks | FileCheck %s --check-prefix=NONE

// No more documents than tokens.
// CHECK: module attributes {nn.document_separator = 3 : i64, nn.max_documents = 8 : i64}
// MOST: nn.max_documents = 6 : i64
// OWN: module attributes {nn.document_separator = 3 : i64}
// CHECK: func.func @forward(%{{.*}}: tensor<2x4xi64> {nn.name = "input_ids"}, %{{.*}}: tensor<2x4xi64> {nn.name = "labels"}, %[[FIRST:.*]]: tensor<2x4xi32> {nn.kind = "first_keys", nn.name = "first_keys"})
// CHECK: %[[MASK:.*]] = nn.reshape %[[FIRST]] {place = #nn.place<@u>} : tensor<2x4xi32> -> tensor<2x1x4x1xi32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] {causal, place = #nn.place<@u>
// NONE-NOT: first_keys
nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}, %labels: tensor<2x4xi64> {nn.name = "labels"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %a, %l = nn.attention %q, %q, %q {causal, place = #nn.place<@u>, scale = 1.0 : f32} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %r = nn.reshape %a : tensor<2x4x1x6xf32> -> tensor<8x6xf32>
  %f = nn.reshape %labels : tensor<2x4xi64> -> tensor<8xi64>
  %s = nn.cross_entropy %r, %f : (tensor<8x6xf32>, tensor<8xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  return
}
