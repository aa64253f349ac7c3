// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates the arith and math ops that elementwise nn ops emit, on scalars.

#ifndef SHARDONNX_TEST_UNIT_VECTOREVALUATOR_H
#define SHARDONNX_TEST_UNIT_VECTOREVALUATOR_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace shardonnx::test {

/// The function's only result, or nothing where it holds an unknown op.
std::optional<double> evaluateScalars(mlir::func::FuncOp function,
                                      llvm::ArrayRef<double> arguments);

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_VECTOREVALUATOR_H
