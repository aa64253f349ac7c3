// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One model on its way through the levels. `compile` takes it to the end,
// `inspect` looks at it half-way.

#ifndef SHARDONNX_DRIVER_COMPILATION_H
#define SHARDONNX_DRIVER_COMPILATION_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Support/Diagnostics.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

namespace shardonnx {

class Compilation {
public:
  explicit Compilation(const CompileOptions &options);

  /// Imports the model and runs the passes up to `level`, of which the module
  /// then is. On failure the error has been printed.
  mlir::LogicalResult runTo(Level level);

  mlir::ModuleOp module() { return *moduleRef; }
  Diagnostics &diagnostics() { return diags; }

  /// The module as text, locations as the options say.
  void print(llvm::raw_ostream &out);

private:
  mlir::LogicalResult import();
  mlir::LogicalResult runPasses(Level level);
  mlir::LogicalResult dump(Level level);

  const CompileOptions &options;
  Diagnostics diags;
  mlir::MLIRContext context;
  std::unique_ptr<mlir::ScopedDiagnosticHandler> handler;
  mlir::DefaultTimingManager timing;
  mlir::TimingScope timingRoot;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef;
  std::optional<Level> reached;
};

/// The name that `--emit` and `--dump-dir` use for a level.
llvm::StringRef levelName(Level level);

/// Writes `content` to `path` through a temporary file beside it, so that a
/// failure leaves nothing behind; prints the error.
mlir::LogicalResult writeFileAtomically(Diagnostics &diagnostics,
                                        llvm::StringRef path,
                                        llvm::StringRef content);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_COMPILATION_H
