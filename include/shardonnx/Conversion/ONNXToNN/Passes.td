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
    that are not supported. Preserves numerics bit for bit, up to the rounding
    of transcendental functions in tables.
  }];
  let options = [
    Option<"assumeFullMask", "assume-full-mask", "bool", "true",
           "attention_mask is all ones and position_ids are 0…S-1, as the "
           "executable feeds them">
  ];
  let dependentDialects = ["::shardonnx::nn::NNDialect",
                           "::mlir::func::FuncDialect"];
}

#endif // SHARDONNX_CONVERSION_ONNXTONN_PASSES
