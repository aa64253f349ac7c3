// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What goes into a graph and what comes out of it: the arguments and results of
// the `nn` function that takes the place of the `onnx` one.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SIGNATURE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SIGNATURE_H

#include "Lowering.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"

namespace shardonnx {

struct LoweringOptions {
  /// The executable feeds ones as `attention_mask`, unless the program reads
  /// it, and 0…S-1 as `position_ids`.
  bool assumeFullMask;
  bool positionsVary;
  DropoutMode dropout;
};

class Signature {
public:
  Signature(mlir::func::FuncOp function, const LoweringOptions &options)
      : function(function), module(function->getParentOfType<mlir::ModuleOp>()),
        options(options) {}

  /// An argument of `entry` for each input whose value is not known.
  llvm::LogicalResult bindArguments(Lowering &l, mlir::Block &entry);
  /// Returns the outputs from `entry`, which becomes the body of the function
  /// that replaces the old one. `random` is the argument of random numbers.
  void replaceFunction(Lowering &l, mlir::Block *entry,
                       mlir::BlockArgument random);

private:
  bool bindKnownInput(Lowering &l, mlir::Value argument, llvm::StringRef name);
  mlir::Value returned(Lowering &l, mlir::Value output, mlir::Attribute &known);

  mlir::func::FuncOp function;
  mlir::ModuleOp module;
  const LoweringOptions &options;
  /// The graph is run as it is: nothing is assumed of its inputs, and outputs
  /// that are known are told rather than computed.
  bool evaluating = module->hasAttr(kEvaluateAttr);
  llvm::SmallVector<unsigned> bound; // arguments, by their place in the graph
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_SIGNATURE_H
