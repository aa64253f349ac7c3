// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reference evaluator of the nn dialect for tests: every op by its
// definition, in double, one element after another. It shares nothing with
// kernels, decompositions or gradients, so that it can judge them.

#ifndef SHARDONNX_TEST_UNIT_NNEVALUATOR_H
#define SHARDONNX_TEST_UNIT_NNEVALUATOR_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <vector>

namespace shardonnx::test {

/// A tensor of any element type, as doubles in row-major order.
struct Tensor {
  Tensor() = default;
  explicit Tensor(llvm::ArrayRef<int64_t> shape, double fill = 0)
      : shape(shape), data(count(shape), fill) {}

  static int64_t count(llvm::ArrayRef<int64_t> shape) {
    int64_t product = 1;
    for (int64_t size : shape)
      product *= size;
    return product;
  }
  /// The element at an index of a larger shape that this broadcasts to.
  double at(llvm::ArrayRef<int64_t> index) const { return data[offset(index)]; }
  double &at(llvm::ArrayRef<int64_t> index) { return data[offset(index)]; }

  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;

private:
  int64_t offset(llvm::ArrayRef<int64_t> index) const;
};

/// Calls `fn` with every index of a shape, the last axis fastest.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn);

/// Runs functions of straight-line nn code.
class Evaluator {
public:
  /// The values of nn.parameter symbols, by name.
  llvm::StringMap<Tensor> parameters;
  /// What nn.loss_scale yields.
  double lossScale = 1.0;
  /// Filled by nn.grad and nn.loss.
  llvm::StringMap<Tensor> gradients;
  double loss = 0;

  /// The function's results, or failure with an error at the op that the
  /// evaluator does not know.
  llvm::FailureOr<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                           llvm::ArrayRef<Tensor> arguments);

private:
  llvm::LogicalResult runBlock(mlir::Block &block);
  llvm::LogicalResult evaluate(mlir::Operation *op);
  bool evaluateParameter(mlir::Operation *op);
  bool evaluateElementwise(mlir::Operation *op);
  bool evaluateShape(mlir::Operation *op);
  bool evaluateReduce(mlir::Operation *op);
  bool evaluateMatmul(mlir::Operation *op);
  bool evaluateAttention(mlir::Operation *op);
  bool evaluateNorm(mlir::Operation *op);
  bool evaluateRandom(mlir::Operation *op);
  bool evaluateIndex(mlir::Operation *op);
  bool evaluateLoss(mlir::Operation *op);
  llvm::LogicalResult evaluateFused(nn::FusedOp op);

  const Tensor &get(mlir::Value value) const {
    return values.find(value)->second;
  }
  /// A zero tensor for a result.
  Tensor &make(mlir::Value value);

  llvm::DenseMap<mlir::Value, Tensor> values;
};

/// The function of one element behind an elementwise op, or null.
std::function<double(llvm::ArrayRef<double>)>
elementFunction(mlir::Operation *op);

/// The same of the ops of NNMath.
std::function<double(llvm::ArrayRef<double>)> mathFunction(mlir::Operation *op);

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_NNEVALUATOR_H
