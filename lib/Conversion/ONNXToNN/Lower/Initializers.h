// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The initializers of a model: constants whose bytes shape the program, and
// parameters, which stay symbols.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INITIALIZERS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INITIALIZERS_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"

namespace shardonnx {

using nn::HostTensor;
using nn::Scalar;

class Initializers {
public:
  explicit Initializers(mlir::ModuleOp module) : module(module) {}

  /// The value of an initializer that may be computed with: one that is neither
  /// trained nor large. Where its bytes cannot be read, an error is emitted.
  std::optional<HostTensor> readConstant(onnx::InitializerOp initializer);

  /// Whether an initializer is a parameter of the program: trained, or too
  /// large to stand in it.
  static bool isParameter(onnx::InitializerOp initializer);
  /// A weight, as a symbol: f32 whatever the file holds, in the layout that the
  /// exporting framework gives it.
  mlir::Value getParameter(nn::NNBuilder &b, onnx::InitializerOp initializer);

  /// Whether a parameter was made of it.
  bool isUsed(onnx::InitializerOp initializer) const {
    return parameters.contains(initializer);
  }
  /// Whether some bytes could not be read.
  bool isBroken() const { return broken; }
  /// Takes back the parameters that were made.
  void eraseParameters();

private:
  mlir::ModuleOp module;
  llvm::DenseMap<mlir::Operation *, nn::ParameterOp> parameters;
  bool broken = false;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_INITIALIZERS_H
