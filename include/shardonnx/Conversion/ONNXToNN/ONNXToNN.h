// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The raise from `onnx` to `nn`.

#ifndef SHARDONNX_CONVERSION_ONNXTONN_ONNXTONN_H
#define SHARDONNX_CONVERSION_ONNXTONN_ONNXTONN_H

#include "mlir/Pass/Pass.h"
#include "shardonnx/runtime/Choices.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace shardonnx {

namespace onnx {
/// On a module: padding masks are data, not ones (--attention-mask).
constexpr llvm::StringLiteral kReadMasksAttr("onnx.read_masks");
/// On a module: positions are data, not 0…S-1 (--position-ids).
constexpr llvm::StringLiteral kReadPositionsAttr("onnx.read_positions");
} // namespace onnx

/// Whether the raise understands an ONNX op type; the import expands the
/// others through the function bodies of their schemas.
bool isRaisable(llvm::StringRef opType);

/// Whether an op type can be computed where all its inputs are known. For a
/// graph whose inputs are all known the import expands the others.
bool isEvaluable(llvm::StringRef opType);

// A graph that is run as it is, rather than trained:

/// Unit attribute of the module: nothing is assumed of the inputs, and outputs
/// that turn out to be known carry their value.
inline constexpr llvm::StringLiteral kEvaluateAttr = "onnx.evaluate";
/// Unit attribute of the module: the outputs are differentiated, so tensors
/// without elements are lowered, too (`nn-remove-empty`), rather than left to
/// the interpreter.
inline constexpr llvm::StringLiteral kDifferentiateAttr = "onnx.differentiate";
/// Attribute of an argument of the `onnx` function: the value of a known input,
/// which is no argument of the `nn` function.
inline constexpr llvm::StringLiteral kInputValueAttr = "onnx.value";

struct RaiseOptions {
  /// Only passes that round as the graph says: what an exporter wrote out stays
  /// written out.
  bool strictNumerics = false;
  DropoutMode dropout = DropoutMode::Graph;
  bool positionsVary = false; // position_ids restart within samples
};

/// Adds the passes of the raise, in order.
void buildRaisePipeline(mlir::OpPassManager &manager,
                        const RaiseOptions &options);

#define GEN_PASS_DECL
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

} // namespace shardonnx

#endif // SHARDONNX_CONVERSION_ONNXTONN_ONNXTONN_H
