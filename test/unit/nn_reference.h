// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference interpreter in double, on tensors that a test may change.

#ifndef SHARDONNX_TEST_UNIT_NN_REFERENCE_H
#define SHARDONNX_TEST_UNIT_NN_REFERENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Interpreter/Elements.h"
#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"

#include <vector>

namespace shardonnx::test {

/// A tensor of any element type, as doubles in row-major order.
struct Tensor {
  Tensor() = default;
  explicit Tensor(llvm::ArrayRef<int64_t> shape, double fill = 0)
      : shape(shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    data.assign(count, fill);
  }
  explicit Tensor(const nn::HostTensor &tensor) : shape(tensor.getShape()) {
    nn::Arithmetic type(tensor.getElementType());
    for (nn::Scalar x : tensor.flatten())
      data.push_back(type.toDouble(x));
  }

  nn::HostTensor as(mlir::Type elementType) const {
    nn::Arithmetic type(elementType, nn::Rounding::None);
    std::vector<nn::Scalar> elements;
    for (double x : data)
      elements.push_back(type.of(x));
    return nn::HostTensor::dense(shape, elementType, std::move(elements));
  }

  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;
};

/// Runs functions and single ops without rounding.
class Evaluator {
public:
  /// The values of nn.parameter symbols, by name.
  llvm::StringMap<Tensor> parameters;
  /// What nn.loss_scale yields.
  double lossScale = 1.0;
  /// Filled by nn.grad and nn.loss.
  llvm::StringMap<Tensor> gradients;
  double loss = 0;

  llvm::FailureOr<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                           llvm::ArrayRef<Tensor> arguments) {
    nn::Interpreter interpreter({nn::Rounding::None});
    mlir::Type f32 = mlir::Float32Type::get(function.getContext());
    for (auto &entry : parameters)
      interpreter.parameters[entry.first()] = entry.second.as(f32);
    interpreter.lossScale = lossScale;
    auto results = interpreter.run(function.getBody(),
                                   bind(function.getArguments(), arguments));
    loss = interpreter.loss;
    gradients.clear();
    for (auto &entry : interpreter.gradients)
      gradients[entry.first()] = Tensor(entry.second);
    return unbind(function, interpreter, results);
  }

  llvm::FailureOr<std::vector<Tensor>> run(mlir::Operation *op,
                                           llvm::ArrayRef<Tensor> operands) {
    nn::Interpreter interpreter({nn::Rounding::None});
    auto results = interpreter.run(op, bind(op->getOperands(), operands));
    return unbind(op, interpreter, results);
  }

private:
  static llvm::SmallVector<nn::HostTensor>
  bind(mlir::ValueRange values, llvm::ArrayRef<Tensor> tensors) {
    llvm::SmallVector<nn::HostTensor> bound;
    for (auto [value, tensor] : llvm::zip_equal(values, tensors))
      bound.push_back(tensor.as(nn::elementType(value)));
    return bound;
  }
  static llvm::FailureOr<std::vector<Tensor>>
  unbind(mlir::Operation *op, const nn::Interpreter &interpreter,
         const nn::Interpreter::Results &results) {
    if (failed(results))
      return op->emitError(interpreter.getReason());
    std::vector<Tensor> tensors;
    for (const nn::HostTensor &result : *results)
      tensors.emplace_back(result);
    return tensors;
  }
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_NN_REFERENCE_H
