// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mark is a piece of a diagnostic's metadata, which MLIR passes on.

#include "shardonnx/Support/UsageError.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {

static constexpr StringLiteral kUsage = "shardonnx.usage";

InFlightDiagnostic emitUsageError(Operation *op) {
  InFlightDiagnostic error = op->emitError();
  error.getUnderlyingDiagnostic()->getMetadata().push_back(
      DiagnosticArgument(kUsage));
  return error;
}

bool isUsageError(Diagnostic &diagnostic) {
  return llvm::any_of(
      diagnostic.getMetadata(), [](const DiagnosticArgument &said) {
        return said.getKind() ==
                   DiagnosticArgument::DiagnosticArgumentKind::String &&
               said.getAsString() == kUsage;
      });
}

} // namespace shardonnx
