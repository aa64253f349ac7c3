// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a shape rule says of operands that do not fit. MLIR's builders end the
// process where a rule fails, which is right for passes: what they build fits.
// What a model's file asks for need not, and the lowering of a node finds out
// by building it.

#ifndef SHARDONNX_DIALECT_NN_IR_SHAPERULE_H
#define SHARDONNX_DIALECT_NN_IR_SHAPERULE_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace shardonnx::nn {

/// Thrown by the shape rules of the ops that are built while a CatchMisfits
/// lives.
struct Misfit {
  std::string why;
};

class CatchMisfits {
public:
  CatchMisfits() : outer(active) { active = true; }
  ~CatchMisfits() { active = outer; }
  CatchMisfits(const CatchMisfits &) = delete;
  CatchMisfits &operator=(const CatchMisfits &) = delete;

  static bool isActive() { return active; }

private:
  static thread_local bool active;
  bool outer;
};

/// A shape rule's refusal.
template <typename... Parts>
llvm::LogicalResult misfit(std::optional<mlir::Location> loc,
                           Parts &&...parts) {
  if (!CatchMisfits::isActive())
    return mlir::emitOptionalError(loc, std::forward<Parts>(parts)...);
  mlir::Diagnostic text(*loc, mlir::DiagnosticSeverity::Error);
  throw Misfit{text.append(std::forward<Parts>(parts)...).str()};
}

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_SHAPERULE_H
