// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a module says what the raise made of it, for `inspect`.

#ifndef SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H
#define SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir {
class ModuleOp;
class Operation;
} // namespace mlir

namespace shardonnx::nn {

/// On a module, an array of dictionaries: `what` an op or a pattern is, the
/// ONNX `nodes` that it stands for, and `why` it is written out where it is.
inline constexpr llvm::StringLiteral kRaisedAttr = "nn.raised";

/// What a pass has to say of that kind, by what and why in the order of the
/// first op. The words live as long as the notes.
class RaiseNotes {
public:
  void add(mlir::Operation *op, llvm::StringRef what, llvm::StringRef why = "");
  /// Behind what the module says already.
  void addTo(mlir::ModuleOp module) const;

private:
  llvm::MapVector<std::pair<llvm::StringRef, llvm::StringRef>,
                  llvm::SmallVector<mlir::Attribute>>
      nodes;
};

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_RAISEREPORT_H
