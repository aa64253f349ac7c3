// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads an ONNX file into the `onnx` dialect. Weights stay on disk: memory and
// time grow with the number of nodes, never with the size of the weights.

#ifndef SHARDONNX_IMPORT_IMPORT_H
#define SHARDONNX_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

class Diagnostics;

/// The shape of the value that an input of the graph is given.
struct GivenInput {
  std::vector<int64_t> shape;
  std::string source; // for messages: what names it
};

struct ImportOptions {
  /// Path of the ONNX file.
  std::string model;
  /// Bound to axis 0 of every graph input (`--batch`).
  std::optional<int64_t> batch;
  /// Bound to axis 1 of every token input (`--seq`).
  std::optional<int64_t> seq;
  /// Bound by the name of a dynamic dimension (`--dim NAME=N`).
  llvm::StringMap<int64_t> dims;
  /// By name, where every input has a value (`shardonnx eval`): binds their
  /// dynamic dimensions, and must name each input that is no weight.
  std::optional<llvm::StringMap<GivenInput>> inputs;
  /// What the file leaves open of how its module trains is an error, where it
  /// would be a warning.
  bool refusesGuesses = false;
  /// The user has said which parameters train.
  bool trainableGiven = false;
  /// Of whole names of parameters, regular expressions: those that are frozen,
  /// and those that alone train, if there are any.
  std::vector<std::string> freeze, trainable;
  /// Says which ONNX op types the next step understands. The others are
  /// replaced by the function bodies of their schemas where these have one.
  std::function<bool(llvm::StringRef)> isSupported;
  /// Values of the outputs of a serialized model, scalars of type i64 or bool,
  /// of which nothing but the shapes of its inputs is known; no value for those
  /// that depend on more, and none at all where the model is not understood.
  using FoldNumbers = std::function<std::vector<std::optional<int64_t>>(
      llvm::StringRef model, const llvm::StringMap<GivenInput> &inputs)>;
  /// Decides which branches of `If` are taken and how often loops turn, where
  /// shapes do; may be null.
  FoldNumbers foldNumbers;
};

/// Imports a model into a module of the `onnx` and `func` dialects, which it
/// loads into `context`. On failure one error has been printed and the result
/// is null.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context,
                                             const ImportOptions &options,
                                             Diagnostics &diagnostics);

/// The bytes of a model that is written in ONNX's own text.
mlir::FailureOr<std::string> onnxOfText(llvm::StringRef text,
                                        Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_IMPORT_IMPORT_H
