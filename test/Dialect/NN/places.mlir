// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -nn-verify-places

nn.parameter @w : tensor<4xf32> {onnx_name = "w", place = #nn.place<@h.0>}
func.func @lost_unit(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %w = nn.get @w {place = #nn.place<@h.0>} : tensor<4xf32>
  // What reads no parameter may stand anywhere.
  %y = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'nn.neg' op computes from parameters, but belongs to no unit}}
  %z = nn.neg %w : (tensor<4xf32>) -> tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @lost_phase(%x: tensor<4xf32>) -> tensor<4xf32> {
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  // expected-error @+1 {{'nn.mul' op reads what backward computes, but is marked as forward}}
  %y = nn.mul %x, %seed : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @reads_again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %again = nn.exp %x {place = #nn.place<recompute>} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'nn.neg' op reads what backward computes, but is marked as forward}}
  %y = nn.neg %again : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @left_phase(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nn.exp' op is marked as backward, but reads nothing that backward computes}}
  %y = nn.exp %x {place = #nn.place<backward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @no_phase(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected one phase: forward, recompute or backward}}
  %y = nn.exp %x {place = #nn.place<@h.0, later>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @in_group(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.fused rows [4] (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'nn.exp' op has a place, but the group has it for all its ops}}
    %e = nn.exp %a {place = #nn.place<@h.0>} : (tensor<4xf32>) -> tensor<4xf32>
    nn.yield %e : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
