// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One graph with given inputs on its way to its outputs: what is known is
// computed by the raise, the rest is compiled and run in a process of its own.

#ifndef SHARDONNX_LIB_DRIVER_EVALPROGRAM_H
#define SHARDONNX_LIB_DRIVER_EVALPROGRAM_H

#include "EvalArrays.h"
#include "EvalRun.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Eval.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

/// Which values the raise is told. What shapes the program (Reshape's shape,
/// TopK's k) must be known for it to be compiled.
enum class Known { Nothing, Integers, Everything };

/// How a graph is to be evaluated.
struct EvalPlan {
  Known known = Known::Nothing;
  /// Every float initializer is an argument of the program and has a gradient,
  /// rather than those alone that training would change.
  bool allWeights = false;
};

/// An array of an evaluated graph: where it goes, and its value or the type
/// that the compiled program writes.
struct EvalOutput {
  std::string fileName; // without the folder
  mlir::RankedTensorType type;
  mlir::DenseElementsAttr value; // null: compiled
  bool gradient = false;
  bool wanted = true; // to be written
};

class EvalProgram {
public:
  EvalProgram(const EvalOptions &options, llvm::ArrayRef<EvalInput> inputs,
              EvalPlan plan, Diagnostics &diagnostics);

  /// On failure an error has been printed; another plan may do better unless it
  /// is final().
  mlir::LogicalResult compile();
  /// Whether it is the command line's inputs that are at fault.
  bool isFinal() const { return final; }

  /// Runs what was compiled and writes every output.
  mlir::LogicalResult run();
  llvm::ArrayRef<EvalOutput> getOutputs() const { return outputs; }
  /// Float initializers that have no gradient, being constants of the program.
  llvm::ArrayRef<std::string> getConstants() const { return constants; }
  /// Writes nothing but the gradients of these.
  void keepGradients(llvm::ArrayRef<std::string> names);
  /// Whether an input is of a dtype of that kind, so that a plan differs from
  /// the one before.
  bool hasIntegerInputs() const { return integerInputs; }

private:
  mlir::ModuleOp module() { return compilation.module(); }
  ImportOptions importOptions() const;
  mlir::LogicalResult bindInputs();
  void markInitializers();
  mlir::LogicalResult checkRaised();
  void collectOutputs();
  void collectBuffers();
  void addZeroGradients();
  void collectPlan();

  const EvalOptions &options;
  llvm::ArrayRef<EvalInput> inputs;
  EvalPlan plan;
  Diagnostics &diags;
  CompileOptions compileOptions;
  Compilation compilation;
  bool final = false, integerInputs = false;
  llvm::StringMap<mlir::DenseElementsAttr> values; // of inline initializers
  std::vector<std::string> constants;
  std::vector<std::pair<std::string, mlir::RankedTensorType>> trained;
  std::vector<EvalOutput> outputs;
  std::vector<EvalBuffer> buffers;
  size_t firstOutput = 0; // of the buffers, those that the program writes
  int64_t privateBytes = 0;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_EVALPROGRAM_H
