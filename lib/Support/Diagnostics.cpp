// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints errors and warnings as single lines in the form that scripts rely on.

#include "shardonnx/Support/Diagnostics.h"

#include "mlir/IR/MLIRContext.h"
#include "shardonnx/Support/Origin.h"
#include "shardonnx/Support/UsageError.h"
#include "shardonnx/runtime/Printable.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {

/// Joins the lines of a message, since one error is one line.
static std::string oneLine(const llvm::Twine &message) {
  std::string line;
  bool gap = false;
  for (char c : message.str()) {
    if (c == '\n' || c == '\r' || c == '\t' || c == ' ') {
      gap = true;
      continue;
    }
    if (gap && !line.empty())
      line += ' ';
    gap = false;
    line += c;
  }
  return line;
}

void Diagnostics::print(StringRef severity, const std::string &message) {
  out << program << ": " << severity << ": " << printable(message) << '\n';
  out.flush();
}

LogicalResult Diagnostics::error(const llvm::Twine &message) {
  ++errorCount;
  if (holds > 0)
    held.push_back(oneLine(message));
  else
    print("error", oneLine(message));
  return failure();
}

LogicalResult Diagnostics::usageError(const llvm::Twine &message) {
  ++usageCount;
  return error(message);
}

LogicalResult Diagnostics::internalError(const llvm::Twine &what) {
  Hold hold(*this);
  ++errorCount;
  if (fault.empty())
    fault = oneLine(what + "; " + kFaultOfCompiler);
  return failure();
}

Diagnostics::Hold::Hold(Diagnostics &diagnostics) : diagnostics(diagnostics) {
  ++diagnostics.holds;
}

Diagnostics::Hold::~Hold() {
  Diagnostics &d = diagnostics;
  if (--d.holds > 0)
    return;
  if (!d.fault.empty())
    d.held.assign(1, d.fault);
  for (const std::string &line : d.held)
    d.print("error", line);
  d.held.clear();
  d.fault.clear();
}

void Diagnostics::printOnce(StringRef severity, const llvm::Twine &message) {
  std::string line = oneLine(message);
  if (llvm::is_contained(told, line))
    return;
  told.push_back(line);
  print(severity, line);
}

void Diagnostics::warning(const llvm::Twine &message) {
  printOnce("warning", message);
}

void Diagnostics::note(const llvm::Twine &message) {
  printOnce("note", message);
}

/// `FILE: node 'N' (Op): message`, leaving out what is not known.
static std::string withOrigin(StringRef subject, Diagnostic &diagnostic) {
  std::string message;
  if (!subject.empty())
    message = (subject + ": ").str();
  std::string origin = describeOrigin(diagnostic.getLocation());
  if (!origin.empty())
    message += origin + ": ";
  message += diagnostic.str();
  for (Diagnostic &note : diagnostic.getNotes())
    message += "; " + note.str();
  return message;
}

/// Whether it is a verifier that speaks, or MLIR itself: `'nn.add' op …`.
static bool isOfVerifier(StringRef message) {
  if (message.starts_with("failed to legalize"))
    return true;
  return message.consume_front("'") &&
         message.substr(message.find('\'')).starts_with("' op ");
}

std::unique_ptr<ScopedDiagnosticHandler>
Diagnostics::capture(MLIRContext *context, StringRef subject) {
  // One line: the operation itself would be many.
  context->printOpOnDiagnostic(false);
  return std::make_unique<ScopedDiagnosticHandler>(
      context, [this, subject = subject.str()](Diagnostic &diagnostic) {
        switch (diagnostic.getSeverity()) {
        case DiagnosticSeverity::Error:
          if (isOfVerifier(diagnostic.str()))
            (void)internalError(withOrigin(subject, diagnostic));
          else if (isUsageError(diagnostic))
            (void)usageError(withOrigin(subject, diagnostic));
          else
            (void)error(withOrigin(subject, diagnostic));
          break;
        case DiagnosticSeverity::Warning:
          warning(withOrigin(subject, diagnostic));
          break;
        case DiagnosticSeverity::Note:
        case DiagnosticSeverity::Remark:
          note(withOrigin(subject, diagnostic));
          break;
        }
        return success();
      });
}

} // namespace shardonnx
