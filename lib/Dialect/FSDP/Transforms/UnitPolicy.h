// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the user's --unit says about module paths, and the search for blocks in
// a graph that has none.

#ifndef SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITPOLICY_H
#define SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITPOLICY_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Regex.h"

#include <string>

namespace shardonnx::fsdp {

class UnitPolicy {
public:
  enum class Kind { Block, Size, Regex };

  /// Reads `block`, `size:N` or regular expressions; on a mistake says so
  /// with `emitError`.
  static mlir::FailureOr<UnitPolicy>
  parse(llvm::ArrayRef<std::string> words,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  Kind kind() const { return policyKind; }
  int64_t size() const { return minimumSize; }

  /// The module that is the unit of `path`: the innermost that matches, or
  /// the block; empty when none.
  llvm::StringRef unitOfPath(llvm::StringRef path) const;

  /// The first regular expression that matches no module of `paths`, if any.
  std::optional<std::string>
  unmatched(llvm::ArrayRef<llvm::StringRef> paths) const;

private:
  Kind policyKind = Kind::Block;
  int64_t minimumSize = 0;
  llvm::SmallVector<std::string> sources;
  llvm::SmallVector<llvm::Regex> patterns;
};

/// The module path of a parameter: its state-dict name without the last part.
llvm::StringRef modulePathOf(llvm::StringRef parameterName);

/// Finds the longest run of ops that repeats with some period, cut where the
/// fewest values cross (the residual stream). Returns for each op the index of
/// its block, or -1. `ops` are the ops of a block in program order.
llvm::SmallVector<int>
findRepeatedBlocks(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace shardonnx::fsdp

#endif // SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITPOLICY_H
