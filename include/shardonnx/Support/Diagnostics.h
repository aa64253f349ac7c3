// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one way in which Shardonnx speaks to its user: single lines on standard
// error that begin with the program's name. Passes emit MLIR diagnostics; a
// handler installed here turns them into the same lines, naming the ONNX node.

#ifndef SHARDONNX_SUPPORT_DIAGNOSTICS_H
#define SHARDONNX_SUPPORT_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace shardonnx {

class Diagnostics {
public:
  explicit Diagnostics(llvm::StringRef program = "shardonnx",
                       llvm::raw_ostream &out = llvm::errs())
      : program(program), out(out) {}

  /// Prints `PROGRAM: error: MESSAGE` on one line. Returns failure so that a
  /// caller can write `return diagnostics.error(...)`.
  mlir::LogicalResult error(const llvm::Twine &message);

  /// Prints `PROGRAM: warning: MESSAGE`, each distinct message once.
  void warning(const llvm::Twine &message);

  /// Prints `PROGRAM: note: MESSAGE`: what was decided, where it was asked for.
  void note(const llvm::Twine &message);

  /// How many errors were printed.
  unsigned errors() const { return errorCount; }

  /// While the returned handler lives, diagnostics of `context` become lines
  /// here. `subject` (for example the model's file name) precedes the node.
  std::unique_ptr<mlir::ScopedDiagnosticHandler>
  capture(mlir::MLIRContext *context, llvm::StringRef subject = "");

private:
  void print(llvm::StringRef severity, const std::string &message);

  std::string program;
  llvm::raw_ostream &out;
  unsigned errorCount = 0;
  llvm::SmallVector<std::string> warned;
};

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_DIAGNOSTICS_H
