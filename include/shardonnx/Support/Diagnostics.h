// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one way in which Shardonnx speaks to its user: single lines on standard
// error that begin with the program's name. Passes emit MLIR diagnostics; a
// handler installed here turns them into the same lines, naming the ONNX node.
// What a pass cannot do for its input, it says with emitError. emitOpError is
// how verifiers speak, and passes of what only a fault of theirs can cause: the
// user reads that the compiler is at fault.

#ifndef SHARDONNX_SUPPORT_DIAGNOSTICS_H
#define SHARDONNX_SUPPORT_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace shardonnx {

/// How every error ends for which the compiler is at fault, not its input.
constexpr llvm::StringLiteral
    kFaultOfCompiler("this is a fault of the compiler, not of the model: "
                     "please report it, with the model");

class Diagnostics {
public:
  explicit Diagnostics(llvm::StringRef program = "shardonnx",
                       llvm::raw_ostream &out = llvm::errs())
      : program(program), out(out) {}

  /// Prints `PROGRAM: error: MESSAGE` on one line. Returns failure so that a
  /// caller can write `return diagnostics.error(...)`.
  mlir::LogicalResult error(const llvm::Twine &message);

  /// The same of the command line's mistakes: an option that does not fit the
  /// model or another option, or that is missing. Passes say so with
  /// emitUsageError (UsageError.h).
  mlir::LogicalResult usageError(const llvm::Twine &message);

  /// Prints that the compiler is at fault, and how it shows.
  mlir::LogicalResult internalError(const llvm::Twine &what);

  /// Prints `PROGRAM: warning: MESSAGE`, each distinct message once.
  void warning(const llvm::Twine &message);

  /// Prints `PROGRAM: note: MESSAGE`, each distinct message once: what was
  /// decided, where it was asked for.
  void note(const llvm::Twine &message);

  /// How many errors were printed.
  unsigned errors() const { return errorCount; }

  /// Whether nothing but the command line was found wrong.
  bool isUsage() const { return errorCount > 0 && usageCount == errorCount; }

  /// While the returned handler lives, diagnostics of `context` become lines
  /// here. `subject` (for example the model's file name) precedes the node.
  std::unique_ptr<mlir::ScopedDiagnosticHandler>
  capture(mlir::MLIRContext *context, llvm::StringRef subject = "");

  /// While one lives, errors are kept; at its end they are printed. A verifier
  /// that fails may have said more than one thing: that is one error.
  class Hold {
  public:
    explicit Hold(Diagnostics &diagnostics);
    ~Hold();
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

  private:
    Diagnostics &diagnostics;
  };

private:
  void print(llvm::StringRef severity, const std::string &message);
  void printOnce(llvm::StringRef severity, const llvm::Twine &message);

  std::string program;
  llvm::raw_ostream &out;
  unsigned errorCount = 0, usageCount = 0;
  unsigned holds = 0;
  llvm::SmallVector<std::string> held;
  std::string fault; // of the compiler: the first that was seen
  llvm::SmallVector<std::string> told; // warnings and notes
};

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_DIAGNOSTICS_H
