// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --unit and a configuration's `units` say about module paths, and the
// search for blocks in a graph that has none.

#ifndef SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITRULES_H
#define SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITRULES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Regex.h"

#include <string>

namespace shardonnx::fsdp {

/// Which modules make a unit.
struct UnitRule {
  /// Block: the numbered modules; Size: what no other rule claims, in runs of
  /// so many elements; Module: those that match; Root: the rest of the model.
  enum class Kind { Block, Size, Module, Root };

  Kind kind = Kind::Block;
  int64_t size = 0;
  llvm::SmallVector<std::string, 1> sources;
  llvm::SmallVector<llvm::Regex, 1> patterns;
  bool together = false; // all matches are one unit...
  std::string name;      // ...which has this name
  std::string origin;    // for messages: `--unit=X`, `units[2]`
  std::string earlier;   // origin of the rule that has all of its modules
  mlir::DictionaryAttr settings; // null without any

  bool matches(llvm::StringRef module) const;
};

class UnitRules {
public:
  /// Of the words of --unit and of nn.unit_rules, which come first; neither:
  /// `block`. Says with `emitError` what is wrong.
  static mlir::FailureOr<UnitRules>
  parse(llvm::ArrayRef<std::string> words, mlir::ArrayAttr policies,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  /// Names the units of several modules: by the first module of the first
  /// pattern that makes one; finds the rules to which earlier ones leave none.
  /// Fails if a pattern matches no module of `paths`.
  mlir::LogicalResult
  resolve(llvm::ArrayRef<llvm::StringRef> paths,
          llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  /// The innermost unit on the way to `path` and the rule that makes it;
  /// empty and null when there is none.
  std::pair<llvm::StringRef, const UnitRule *>
  unitOfPath(llvm::StringRef path) const;

  /// The first rule of a kind; null when there is none.
  const UnitRule *find(UnitRule::Kind kind) const;

  llvm::ArrayRef<UnitRule> all() const { return rules; }

private:
  /// The rule that makes a unit of a module, the first one that would; null:
  /// none.
  const UnitRule *ownerOf(llvm::StringRef module, bool isBlock) const;

  llvm::SmallVector<UnitRule> rules;
};

/// The module path of a parameter: its state-dict name without the last part.
llvm::StringRef modulePathOf(llvm::StringRef parameterName);

/// Finds the longest run of ops that repeats with some period, cut where the
/// fewest values cross (the residual stream). Returns for each op the index of
/// its block, or -1. `ops` are the ops of a block in program order.
llvm::SmallVector<int>
findRepeatedBlocks(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace shardonnx::fsdp

#endif // SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_UNITRULES_H
