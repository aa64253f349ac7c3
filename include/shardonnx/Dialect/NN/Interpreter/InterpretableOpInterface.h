// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface of ops that the reference interpreter evaluates.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETABLEOPINTERFACE_H
#define SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETABLEOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace shardonnx::nn {
class Interpreter;
} // namespace shardonnx::nn

#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.h.inc"

#endif // SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETABLEOPINTERFACE_H
