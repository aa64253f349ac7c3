// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Initializers of a model: where their bytes lie, which of them training may
// change, and what the exporter did to them.

#ifndef SHARDONNX_LIB_IMPORT_PARAMETERS_H
#define SHARDONNX_LIB_IMPORT_PARAMETERS_H

#include "Metadata.h"
#include "WireFormat.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/LogicalResult.h"

#include <optional>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
} // namespace onnx

namespace shardonnx {

class Diagnostics;
struct ImportOptions;

struct Initializer {
  /// The name in the graph.
  std::string name;
  /// The name in the state dict; equals `name` unless the exporter renamed it.
  std::string symbol;
  mlir::RankedTensorType type;
  /// Either `file` (relative to the model's folder) or `value`. A length of 0
  /// stands for zeros that no file has.
  std::string file;
  uint64_t offset = 0;
  uint64_t length = 0;
  mlir::ElementsAttr value;
  bool trainable = false;
  /// Of the module, trained or not.
  bool isParameter = false;
  /// Nothing says what trains, and its use or its numbers tell that it does
  /// not.
  bool isBuffer = false;
  /// The message has not its bytes.
  bool isStripped = false;
  /// A large Constant of the graph: a number of the program, not a parameter.
  bool isConstant = false;
  bool transposed = false;
  /// What the bytes plus this are the parameter: the file has 1 + weight.
  float addend = 0;
  /// The row of an embedding that is padding, where only its zeros say so.
  std::optional<int64_t> paddingIndex;
  /// Where modules share it: all its names in the state dict, in the order of
  /// the modules. The graph has only one of them.
  std::vector<std::string> names;
};

/// A parameter of the module that is not trained.
struct Untrained {
  std::string name, reason;
  /// As its author wanted it.
  bool asked = false;
  /// The module trains it, and the file has no longer what that takes; or an
  /// output reads it.
  bool lost = false;
  /// Of what forward writes: the graph's outputs that depend on it.
  std::optional<std::vector<std::string>> readBy = std::nullopt;
};

struct ModelInitializers {
  std::vector<Initializer> initializers;
  std::vector<Untrained> untrained;
};

/// Reads the initializers and takes them out of the graph: each becomes a graph
/// input for the ONNX library, except small constants, which it needs for
/// propagating shapes. Undoes what the exporter's optimizer does to parameters
/// (transposing, merging equal ones) and lists those it has frozen. A weight
/// whose values the IR holds can be read but not trained.
llvm::FailureOr<ModelInitializers>
takeInitializers(::onnx::ModelProto &model, const StrippedModel &stripped,
                 Metadata &metadata, const ImportOptions &options,
                 mlir::MLIRContext *context, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_PARAMETERS_H
