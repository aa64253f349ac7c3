// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One model on its way through the levels. `compile` takes it to the end,
// `inspect` looks at it half-way, `eval` asks at each level what it has become.

#ifndef SHARDONNX_DRIVER_COMPILATION_H
#define SHARDONNX_DRIVER_COMPILATION_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Target/Program.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

#include <future>
#include <system_error>

namespace shardonnx {

/// A file's SHA-256, or why there is none.
struct FileHash {
  std::string hex;
  std::error_code error;
};

class Compilation {
public:
  /// `import` says how the file is read where that is no option.
  Compilation(const CompileOptions &options, Diagnostics &diagnostics,
              ImportOptions import = {});

  /// Imports the model and runs the passes up to `level`, of which the module
  /// then is. On failure the error has been printed.
  mlir::LogicalResult runTo(Level level);

  mlir::ModuleOp module() { return *moduleRef; }

  /// What the levels to come make, where the ones before have shown that it is
  /// less than was asked for: no gradients.
  void setProgram(ProgramKind program) { options.program = program; }

  /// The level reached as text: IR, with locations as the options say; the
  /// kernels' PTX at Level::PTX; LLVM IR at Level::LLVM; the relocatable object
  /// at Level::Object.
  mlir::LogicalResult print(llvm::raw_ostream &out);

  /// Behind all else: that the file does not say what requires a gradient, if
  /// the user has not, either.
  void noteGradientsUntold();

  /// At Level::Memory: what the executable will say of itself.
  mlir::FailureOr<std::string> manifest();

  /// At Level::Object: makes the executable.
  mlir::LogicalResult link(llvm::StringRef output);
  llvm::ArrayRef<ObjectBytes> getObjects() const { return objects; }

  /// What the program will say of itself beside its module.
  mlir::FailureOr<const ProgramOptions *> programOptions();

private:
  mlir::LogicalResult runLevel(Level level);
  mlir::LogicalResult import();
  void prepareRaise();
  mlir::LogicalResult runPasses(Level level);
  mlir::LogicalResult fit();
  mlir::LogicalResult fitBytes();
  mlir::LogicalResult fitBudget();
  mlir::LogicalResult fitRecompute();
  mlir::LogicalResult fitMemory();
  mlir::LogicalResult reportUntrained();
  mlir::LogicalResult reportWritten(mlir::ArrayAttr list);
  mlir::LogicalResult lowerDevice();
  mlir::LogicalResult lower();
  mlir::LogicalResult emitObject();
  mlir::FailureOr<TargetSpec> hostTarget();
  void startHashing();
  void startHashingExternal();
  mlir::LogicalResult dump(Level level);

  CompileOptions options; // --fit decides some of them
  Diagnostics &diags;
  ImportOptions importOptions;
  bool gradientsUntold = false; // by the file: what requires a gradient
  std::string trained;          // what trains then, for people
  mlir::MLIRContext context;
  std::unique_ptr<mlir::ScopedDiagnosticHandler> handler;
  mlir::DefaultTimingManager timing;
  mlir::TimingScope timingRoot;
  mlir::OwningOpRef<mlir::ModuleOp> moduleRef;
  std::optional<Level> reached;
  std::optional<ProgramOptions> program;
  std::future<FileHash> modelHash; // where it was begun early
  std::future<ExternalFiles> externalFiles;
  std::optional<DeviceProgram> device; // with --target=cuda
  std::vector<ObjectBytes> objects;
  std::string llvmIR; // optimised, as text; made only if someone prints it
};

/// Writes `content` to `path` through a temporary file beside it, so that a
/// failure leaves nothing behind; prints the error.
mlir::LogicalResult writeFileAtomically(Diagnostics &diagnostics,
                                        llvm::StringRef path,
                                        llvm::StringRef content);
/// Whether it could begin to, for what is written after minutes of work.
mlir::LogicalResult checkFileIsWritable(Diagnostics &diagnostics,
                                        llvm::StringRef path);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_COMPILATION_H
