// A tied embedding, two blocks y = x + relu(x·w + b) of 4 rows and width 8, and
// a head, with their gradients: what the sharding passes start from.
module {
  nn.parameter @wte.weight : tensor<32x8xf32> trainable {onnx_name = "wte.weight", place = #nn.place<@root>}
  nn.parameter @h.0.w : tensor<8x8xf32> trainable {onnx_name = "h.0.w", place = #nn.place<@h.0>}
  nn.parameter @h.0.b : tensor<8xf32> trainable {onnx_name = "h.0.b", place = #nn.place<@h.0>}
  nn.parameter @h.1.w : tensor<8x8xf32> trainable {onnx_name = "h.1.w", place = #nn.place<@h.1>}
  nn.parameter @h.1.b : tensor<8xf32> {onnx_name = "h.1.b", place = #nn.place<@h.1>}

  func.func @microbatch(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %wte = nn.get @wte.weight {place = #nn.place<@root>} : tensor<32x8xf32>
    %w0 = nn.get @h.0.w {place = #nn.place<@h.0>} : tensor<8x8xf32>
    %b0 = nn.get @h.0.b {place = #nn.place<@h.0>} : tensor<8xf32>
    %w1 = nn.get @h.1.w {place = #nn.place<@h.1>} : tensor<8x8xf32>
    %b1 = nn.get @h.1.b {place = #nn.place<@h.1>} : tensor<8xf32>
    %x0 = nn.embedding %wte, %ids {place = #nn.place<@root>} : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %m0 = nn.matmul %x0, %w0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %a0 = nn.add %m0, %b0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %r0 = nn.relu %a0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x1 = nn.add %x0, %r0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %m1 = nn.matmul %x1, %w1 {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %a1 = nn.add %m1, %b1 {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %r1 = nn.relu %a1 {place = #nn.place<@h.1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x2 = nn.add %x1, %r1 {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %head = nn.transpose %wte {permutation = array<i64: 1, 0>, place = #nn.place<@root>} : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %logits = nn.matmul %x2, %head {place = #nn.place<@root>} : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
    %seed = nn.loss_scale {place = #nn.place<@root, backward>} : tensor<f32>
    %sum, %dlogits = nn.cross_entropy_grad %logits, %labels, %seed {place = #nn.place<@root, backward>} : (tensor<4x32xf32>, tensor<4xi64>, tensor<f32>) -> (tensor<f32>, tensor<4x32xf32>)
    nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64, place = #nn.place<backward>} : tensor<f32>
    %dx2 = nn.matmul %dlogits, %head {place = #nn.place<@root, backward>, transpose_rhs} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
    %dhead = nn.matmul %dlogits, %x2 {place = #nn.place<@root, backward>, transpose_lhs} : (tensor<4x32xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %p1 = nn.compare gt %a1, %zero {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %da1 = nn.select %p1, %dx2, %zero {place = #nn.place<@h.1, backward>} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %dm1 = nn.matmul %da1, %w1 {place = #nn.place<@h.1, backward>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw1 = nn.matmul %x1, %da1 {place = #nn.place<@h.1, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    nn.grad @h.1.w, %dw1 {place = #nn.place<@h.1, backward>} : tensor<8x8xf32>
    %dx1 = nn.add %dx2, %dm1 {place = #nn.place<@h.1, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %p0 = nn.compare gt %a0, %zero {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %da0 = nn.select %p0, %dx1, %zero {place = #nn.place<@h.0, backward>} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %db0 = nn.reduce_sum %da0 {axes = array<i64: 0>, place = #nn.place<@h.0, backward>} : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.grad @h.0.b, %db0 {place = #nn.place<@h.0, backward>} : tensor<8xf32>
    %dm0 = nn.matmul %da0, %w0 {place = #nn.place<@h.0, backward>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw0 = nn.matmul %x0, %da0 {place = #nn.place<@h.0, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    nn.grad @h.0.w, %dw0 {place = #nn.place<@h.0, backward>} : tensor<8x8xf32>
    %dx0 = nn.add %dx1, %dm0 {place = #nn.place<@h.0, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %dwte = nn.embedding_grad %ids, %dx0 {place = #nn.place<@root, backward>} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %dtied = nn.add %dhead, %dwte {place = #nn.place<@root, backward>} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    nn.grad @wte.weight, %dtied {place = #nn.place<@root, backward>} : tensor<32x8xf32>
    return
  }

  func.func @eval(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
    %wte = nn.get @wte.weight {place = #nn.place<@root>} : tensor<32x8xf32>
    %w0 = nn.get @h.0.w {place = #nn.place<@h.0>} : tensor<8x8xf32>
    %b0 = nn.get @h.0.b {place = #nn.place<@h.0>} : tensor<8xf32>
    %x0 = nn.embedding %wte, %ids {place = #nn.place<@root>} : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %m0 = nn.matmul %x0, %w0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %x1 = nn.add %m0, %b0 {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %w1 = nn.get @h.1.w {place = #nn.place<@h.1>} : tensor<8x8xf32>
    %x2 = nn.matmul %x1, %w1 {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %logits = nn.matmul %x2, %wte {place = #nn.place<@root>, transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
    %sum = nn.cross_entropy %logits, %labels {place = #nn.place<@root>} : (tensor<4x32xf32>, tensor<4xi64>) -> tensor<f32>
    nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
    return
  }
}
