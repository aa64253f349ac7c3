// A tied embedding, two blocks y = x + relu(x·w + b) of 4 rows and width 8, and
// a head, with their gradients: what the sharding passes start from.
module {
  nn.parameter @wte.weight : tensor<32x8xf32> trainable {nn.unit = @root, onnx_name = "wte.weight"}
  nn.parameter @h.0.w : tensor<8x8xf32> trainable {nn.unit = @h.0, onnx_name = "h.0.w"}
  nn.parameter @h.0.b : tensor<8xf32> trainable {nn.unit = @h.0, onnx_name = "h.0.b"}
  nn.parameter @h.1.w : tensor<8x8xf32> trainable {nn.unit = @h.1, onnx_name = "h.1.w"}
  nn.parameter @h.1.b : tensor<8xf32> {nn.unit = @h.1, onnx_name = "h.1.b"}

  func.func @microbatch(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %wte = nn.get @wte.weight {nn.unit = @root} : tensor<32x8xf32>
    %w0 = nn.get @h.0.w {nn.unit = @h.0} : tensor<8x8xf32>
    %b0 = nn.get @h.0.b {nn.unit = @h.0} : tensor<8xf32>
    %w1 = nn.get @h.1.w {nn.unit = @h.1} : tensor<8x8xf32>
    %b1 = nn.get @h.1.b {nn.unit = @h.1} : tensor<8xf32>
    %x0 = nn.embedding %wte, %ids {nn.unit = @root} : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %m0 = nn.matmul %x0, %w0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %a0 = nn.add %m0, %b0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %r0 = nn.relu %a0 {nn.unit = @h.0} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x1 = nn.add %x0, %r0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %m1 = nn.matmul %x1, %w1 {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %a1 = nn.add %m1, %b1 {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %r1 = nn.relu %a1 {nn.unit = @h.1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %x2 = nn.add %x1, %r1 {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %head = nn.transpose %wte {permutation = array<i64: 1, 0>, nn.unit = @root} : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %logits = nn.matmul %x2, %head {nn.unit = @root} : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
    %seed = nn.loss_scale {nn.unit = @root} : tensor<f32>
    %sum, %dlogits = nn.cross_entropy_grad %logits, %labels, %seed {nn.unit = @root} : (tensor<4x32xf32>, tensor<4xi64>, tensor<f32>) -> (tensor<f32>, tensor<4x32xf32>)
    nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
    %dx2 = nn.matmul %dlogits, %head {nn.unit = @root, transpose_rhs} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
    %dhead = nn.matmul %dlogits, %x2 {nn.unit = @root, transpose_lhs} : (tensor<4x32xf32>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %p1 = nn.compare gt %a1, %zero {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %da1 = nn.select %p1, %dx2, %zero {nn.unit = @h.1} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %dm1 = nn.matmul %da1, %w1 {nn.unit = @h.1, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw1 = nn.matmul %x1, %da1 {nn.unit = @h.1, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    nn.grad @h.1.w, %dw1 {nn.unit = @h.1} : tensor<8x8xf32>
    %dx1 = nn.add %dx2, %dm1 {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %p0 = nn.compare gt %a0, %zero {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %da0 = nn.select %p0, %dx1, %zero {nn.unit = @h.0} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %db0 = nn.reduce_sum %da0 {axes = array<i64: 0>, nn.unit = @h.0} : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.grad @h.0.b, %db0 {nn.unit = @h.0} : tensor<8xf32>
    %dm0 = nn.matmul %da0, %w0 {nn.unit = @h.0, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dw0 = nn.matmul %x0, %da0 {nn.unit = @h.0, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    nn.grad @h.0.w, %dw0 {nn.unit = @h.0} : tensor<8x8xf32>
    %dx0 = nn.add %dx1, %dm0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %dwte = nn.embedding_grad %ids, %dx0 {nn.unit = @root} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<32x8xf32>
    %dtied = nn.add %dhead, %dwte {nn.unit = @root} : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
    nn.grad @wte.weight, %dtied {nn.unit = @root} : tensor<32x8xf32>
    return
  }

  func.func @eval(%ids: tensor<4xi64>, %labels: tensor<4xi64>) {
    %wte = nn.get @wte.weight {nn.unit = @root} : tensor<32x8xf32>
    %w0 = nn.get @h.0.w {nn.unit = @h.0} : tensor<8x8xf32>
    %b0 = nn.get @h.0.b {nn.unit = @h.0} : tensor<8xf32>
    %x0 = nn.embedding %wte, %ids {nn.unit = @root} : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %m0 = nn.matmul %x0, %w0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %x1 = nn.add %m0, %b0 {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %w1 = nn.get @h.1.w {nn.unit = @h.1} : tensor<8x8xf32>
    %x2 = nn.matmul %x1, %w1 {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %logits = nn.matmul %x2, %wte {nn.unit = @root, transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
    %sum = nn.cross_entropy %logits, %labels {nn.unit = @root} : (tensor<4x32xf32>, tensor<4xi64>) -> tensor<f32>
    nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
    return
  }
}
