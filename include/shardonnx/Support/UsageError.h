// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of passes for which the command line is at fault, not the model. They
// are diagnostics as any other; a mark that is not printed has the driver end
// as after its own usage errors.

#ifndef SHARDONNX_SUPPORT_USAGEERROR_H
#define SHARDONNX_SUPPORT_USAGEERROR_H

#include "mlir/IR/Diagnostics.h"

namespace shardonnx {

/// As `op->emitError()`, of an option that does not fit the model, or without
/// which the model leaves open what is asked for. What another export would
/// mend as well is the model's fault: emitError.
mlir::InFlightDiagnostic emitUsageError(mlir::Operation *op);

/// Whether emitUsageError made it.
bool isUsageError(mlir::Diagnostic &diagnostic);

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_USAGEERROR_H
