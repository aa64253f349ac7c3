// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference interpreter of the nn dialect: straight-line code on tensors of
// known value. It knows no op; each evaluates itself
// (InterpretableOpInterface), beside its shape rule and its gradient.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETER_H
#define SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETER_H

#include "mlir/IR/Region.h"
#include "shardonnx/Dialect/NN/Interpreter/Arithmetic.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx::nn {

struct InterpreterOptions {
  Rounding rounding = Rounding::ToType;
  /// The most elements that an op may store, and products or sums that it may
  /// take; where it needs more it is refused.
  int64_t maxElements = int64_t(1) << 25;
  int64_t maxSteps = int64_t(1) << 30;
};

class Interpreter {
public:
  using Results = llvm::FailureOr<llvm::SmallVector<HostTensor>>;

  explicit Interpreter(InterpreterOptions options = {}) : options(options) {}

  // What a program reads and writes beside its arguments and results.

  /// The values of nn.parameter symbols, by name.
  llvm::StringMap<HostTensor> parameters;
  /// What nn.loss_scale yields.
  double lossScale = 1;
  /// Set by nn.grad and nn.loss.
  llvm::StringMap<HostTensor> gradients;
  double loss = 0;

  /// What the terminator of the region's one block hands over. On failure
  /// `getReason` says which op cannot be evaluated, and why.
  Results run(mlir::Region &region, llvm::ArrayRef<HostTensor> arguments);
  /// The results of one op, of operands that need not have its types' shapes.
  Results run(mlir::Operation *op, llvm::ArrayRef<HostTensor> operands);
  llvm::StringRef getReason() const { return reason; }

  // What ops ask while they are evaluated.

  const HostTensor &get(mlir::Value value) const {
    return values.find(value)->second;
  }
  /// Null where an optional operand is absent.
  const HostTensor *find(mlir::Value value) const {
    return value ? &get(value) : nullptr;
  }
  llvm::LogicalResult set(mlir::Value result, HostTensor tensor);
  /// Sets a result of the given elements in row-major order; floats are rounded
  /// here.
  llvm::LogicalResult set(mlir::Value result, std::vector<Scalar> elements);
  /// Evaluates an op of one result that maps elements to elements.
  llvm::LogicalResult
  map(mlir::Operation *op,
      llvm::function_ref<Scalar(llvm::ArrayRef<Scalar>)> function);
  /// Evaluates the ops of a block whose arguments are set.
  llvm::LogicalResult runBlock(mlir::Block &block);

  Arithmetic arithmetic(mlir::Value value) const;
  Arithmetic arithmetic(mlir::Type elementType) const {
    return Arithmetic(elementType, options.rounding);
  }
  // Whether an op may be computed; else it is refused.

  /// All its operands and results may be stored element by element.
  bool allows(mlir::Operation *op);
  /// A tensor of this shape may be.
  bool allowsElements(mlir::Operation *op, llvm::ArrayRef<int64_t> shape);
  /// As many products or sums as the product of `steps` may be taken, and
  /// operands and results stored.
  bool allowsSteps(mlir::Operation *op, llvm::ArrayRef<int64_t> steps);
  /// A reshape may copy.
  bool allowsReshape(mlir::Operation *op, const HostTensor &tensor,
                     llvm::ArrayRef<int64_t> shape);
  /// Says why `op` cannot be evaluated; always failure.
  llvm::LogicalResult refuse(mlir::Operation *op, const llvm::Twine &why);

private:
  InterpreterOptions options;
  llvm::DenseMap<mlir::Value, HostTensor> values;
  std::string reason;
};

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_INTERPRETER_INTERPRETER_H
