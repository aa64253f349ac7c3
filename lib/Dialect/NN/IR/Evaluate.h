// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the reference evaluations of several families share.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_EVALUATE_H
#define SHARDONNX_LIB_DIALECT_NN_IR_EVALUATE_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Interpreter/Elements.h"
#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"

#include <cmath>

#define NN_EVALUATE(OP) LogicalResult OP::evaluate(Interpreter &interpreter)
/// An op that is one function of a real number `x`.
#define NN_EVALUATE_AS(OP, FORMULA)                                            \
  NN_EVALUATE(OP) {                                                            \
    return evaluateReal(*this, interpreter,                                    \
                        [](double x) -> double { return FORMULA; });           \
  }

namespace shardonnx::nn {

template <typename Function>
llvm::LogicalResult evaluateReal(mlir::Operation *op, Interpreter &interpreter,
                                 Function function) {
  Arithmetic type = interpreter.arithmetic(op->getResult(0));
  if (!type.isFloat())
    return interpreter.refuse(op, "it is of floats");
  return interpreter.map(op, [&](llvm::ArrayRef<Scalar> x) {
    return ofFloat(type.round(function(x[0].f)));
  });
}

/// Refuses what the ranks of a mesh compute together.
llvm::LogicalResult refuseAlone(mlir::Operation *op, Interpreter &interpreter);

struct IndexAxes;

/// Sets the result to the elements of `data` at `indices`, whose last axis
/// holds coordinates (nn.gather).
llvm::LogicalResult evaluateGather(mlir::Operation *op,
                                   Interpreter &interpreter,
                                   const HostTensor &data,
                                   const HostTensor &indices,
                                   const IndexAxes &axes);

/// log(Σ e^x), without overflow.
double logSumExp(llvm::ArrayRef<Scalar> row);

/// Calls `body` with the number and the elements of each row of the last axis.
template <typename Body> void forEachRow(const Elements &x, Body body) {
  int64_t width = x.shape.back(), rows = 1;
  for (int64_t size : llvm::ArrayRef<int64_t>(x.shape).drop_back())
    rows *= size;
  for (int64_t row = 0; row < rows; ++row)
    body(row, llvm::ArrayRef<Scalar>(x.values).slice(row * width, width));
}

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_EVALUATE_H
