// RUN: shardonnx-opt %s -nn-assign-units -nn-assign-dtypes=param-dtype=bf16 -nn-differentiate -fsdp-shard | FileCheck %s

// Adapters on frozen weights: a block's frozen weight lies beside its adapters
// in one unit, kept in bf16 and gathered with them; it gets no gradient.
// Nothing is gathered in f32. Backward gathers a block whose frozen weight it
// multiplies with, and not the table of the embedding.
// CHECK-DAG: fsdp.unit @root sharded bf16 reduce bf16 length 0 [] frozen 256
// CHECK-DAG: fsdp.unit @h.0 sharded bf16 reduce f32 length 512
// CHECK-DAG: fsdp.unit @h.1 sharded bf16 reduce {{.*}} length 0 [] frozen 256
nn.parameter @wte.weight : tensor<32x8xf32> {onnx_name = "wte.weight"}
nn.parameter @h.0.w : tensor<8x8xf32> {onnx_name = "h.0.w"}
nn.parameter @h.0.lora_a : tensor<8x2xf32> trainable {onnx_name = "h.0.lora_a"}
nn.parameter @h.0.lora_b : tensor<2x8xf32> trainable {onnx_name = "h.0.lora_b"}
nn.parameter @h.1.w : tensor<8x8xf32> {onnx_name = "h.1.w"}
nn.parameter @head.0.w : tensor<8x32xf32> {onnx_name = "head.0.w"}

// CHECK-LABEL: func.func @microbatch
// CHECK-NOT: f32> {{.*}}fsdp.view
// CHECK:     fsdp.all_gather @root
// CHECK:     fsdp.all_gather @h.0
// CHECK:     fsdp.all_gather @h.1
// CHECK:     fsdp.all_gather @head.0
// CHECK-NOT: fsdp.all_gather @head.0
// CHECK:     fsdp.all_gather @h.1
// CHECK-NOT: fsdp.all_gather @root
// CHECK:     fsdp.reduce_scatter @h.0 [@h.0.lora_a, @h.0.lora_b]
// CHECK-NOT: fsdp.reduce_scatter
func.func @forward(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
  %t = nn.get @wte.weight : tensor<32x8xf32>
  %x = nn.embedding %t, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %w = nn.get @h.0.w : tensor<8x8xf32>
  %a = nn.get @h.0.lora_a : tensor<8x2xf32>
  %b = nn.get @h.0.lora_b : tensor<2x8xf32>
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.matmul %x, %a : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %2 = nn.matmul %1, %b : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %3 = nn.add %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w1 = nn.get @h.1.w : tensor<8x8xf32>
  %4 = nn.matmul %3, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = nn.get @head.0.w : tensor<8x32xf32>
  %5 = nn.matmul %4, %h : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %s = nn.cross_entropy %5, %labels : (tensor<4x32xf32>, tensor<4xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  return
}
