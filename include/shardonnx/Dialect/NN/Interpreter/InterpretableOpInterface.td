// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the reference interpreter asks of an op.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETABLE
#define SHARDONNX_DIALECT_NN_INTERPRETABLE

include "mlir/IR/OpBase.td"

def InterpretableOpInterface : OpInterface<"InterpretableOpInterface"> {
  let cppNamespace = "::shardonnx::nn";
  let description = [{
    An op whose meaning is written down as a computation on tensors of known
    value, one element after another. It shares nothing with kernels,
    decompositions and gradients, so that it can judge them.
  }];
  let methods = [
    InterfaceMethod<[{
      Reads the operands from the interpreter and sets every result. On failure
      it has called `refuse`.
    }],
    "::llvm::LogicalResult", "evaluate",
    (ins "::shardonnx::nn::Interpreter &":$interpreter)>
  ];
}

#endif // SHARDONNX_DIALECT_NN_INTERPRETABLE
