// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The raise: from the graph as exported to what it means.

#ifndef SHARDONNX_CONVERSION_ONNXTONN_PASSES
#define SHARDONNX_CONVERSION_ONNXTONN_PASSES

include "mlir/Pass/PassBase.td"

def ConvertONNXToNN : Pass<"convert-onnx-to-nn", "::mlir::ModuleOp"> {
  let summary = "Compute what is known and lower every ONNX node to nn";
  let description = [{
    Nodes whose inputs are known (shapes, masks, position ids, tables) are
    computed; each other node becomes a few `nn` ops. One error lists all ops
    that are not supported. Padding masks are ones, or data if the module has
    `onnx.read_masks`; so are positions with `onnx.read_positions`. Preserves
    numerics bit for bit, up to the rounding of transcendental functions in
    tables.
  }];
  let options = [
    Option<"assumeFullMask", "assume-full-mask", "bool", "true",
           "attention_mask is all ones and position_ids are 0…S-1, as the "
           "executable feeds them">,
    Option<"positionsVary", "positions-vary", "bool", "false",
           "position_ids restart within samples, so they are data">,
    Option<"strict", "strict", "bool", "false",
           "the module's floats are computed as the graph says, bit for bit: "
           "--strict-numerics">,
    Option<"dropout", "dropout", "::shardonnx::DropoutMode",
           "::shardonnx::DropoutMode::Graph",
           "which Dropout nodes drop: graph (those in training mode), on (all "
           "with a ratio), off",
           "::shardonnx::SpelledValues<::shardonnx::DropoutMode>()">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect",
                           "::mlir::func::FuncDialect"];
}

def RaiseDropout : Pass<"raise-dropout"> {
  let summary = "Masks that are drawn with one chance become the dropout of it";
  let description = [{
    ⌊p + u⌋ and u < p as a number, for u in [0, 1) that nothing else reads, are
    dropout of p with the ratio 1 - p: 1 where it is kept. So evaluation, and
    --dropout=off, have the mask's mean, and stochastic depth, which divides by
    it, is left out there. Which elements are zero changes; their chance
    does not.
  }];
  let options = [
    Option<"dropout", "dropout", "::shardonnx::DropoutMode",
           "::shardonnx::DropoutMode::Graph", "off: masks are their mean",
           "::shardonnx::SpelledValues<::shardonnx::DropoutMode>()">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseLayout : Pass<"raise-layout"> {
  let summary = "Transposes around matrix products become their attributes";
  let description = [{
    Preserves numerics bit for bit, but for 1/sqrt(x), which becomes one op.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseNorm : Pass<"raise-norm"> {
  let summary = "Written-out RMS and layer normalisation become one op";
  let description = "Changes the rounding of intermediate values only.";
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseDeviation : Pass<"raise-deviation"> {
  let summary = "The root of a variance has no gradient where that is 0";
  let description = [{
    torch.std's gradient is 0 there (std_backward), and exporters write it out
    as a root, whose gradient is not a number. What is added to before the root
    is taken stays as it is.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseActivation : Pass<"raise-activation"> {
  let summary = "Written-out GELU and SiLU become one op, log-sigmoid softplus";
  let description = [{
    Changes the rounding of intermediate values only. log(sigmoid(x)) becomes
    -softplus(-x), log(1 - sigmoid(x)) -softplus(x), and log(exp(a) + exp(b)),
    which is torch.logaddexp, the larger plus softplus(-|a - b|): none overflows
    or forgets small numbers. In f32 a constant c > 0 may stand for exp(b), then
    with b = log(c); 0 tells no b and stays.
    torch.atan2(y, x) and torch.angle, written as atan(y / x) and turns by π,
    are π where y is 0 and x negative, and have gradients where x is 0. A side
    may be constant, but not an initializer that trains or might.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseRotary : Pass<"raise-rotary"> {
  let summary = "Written-out rotary embedding becomes one op, its tables frequencies";
  let description = [{
    A table is replaced when it is cos and sin of position × frequency to the
    precision of f32 angles. Changes rounding only.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseAttention : Pass<"raise-attention"> {
  let summary = "Products around a softmax become attention; causal masks an attribute";
  let description = [{
    Recognises scaled dot-product attention, with batch and heads as two axes or
    one (torch.bmm, nn.MultiheadAttention), with its scale on the scores, the
    queries or the keys, soft cap, added or selected masks, the guard of rows
    that see nothing, and repeated key and value heads. Changes rounding only:
    where masks hide by different numbers, or something is added behind one that
    hides by a number, a query that sees nothing weighs its keys by these, and
    the products stay as they are. Beside a bias it gets the mean of all values.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def RaiseMasks : Pass<"raise-masks"> {
  let summary = "Masks that depend on data are small, their causal part an attribute";
  let description = [{
    Broadcasts move behind the ops that make a mask, and into attention. Of a
    mask that is causal and something else, the causal part becomes an
    attribute. Preserves numerics bit for bit, but for queries that see no key.
  }];
  let dependentDialects = ["::shardonnx::nn::NNDialect"];
}

def ReportRaise : Pass<"report-raise", "::mlir::ModuleOp"> {
  let summary = "The module says what was raised, and what was not and why";
  let description = [{
    Sets `nn.raised` for `shardonnx inspect`. Preserves numerics bit for bit.
  }];
  let options = [
    Option<"strict", "strict", "bool", "false",
           "nothing was raised: --strict-numerics">
  ];
}

#endif // SHARDONNX_CONVERSION_ONNXTONN_PASSES
