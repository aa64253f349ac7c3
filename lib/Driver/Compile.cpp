// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx compile`: a model to an executable, or to the level that `--emit`
// names.

#include "CheckOptions.h"
#include "InspectReport.h"
#include "OutputCheck.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Plan.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

// The default is the model's stem, in the current folder. Nothing: text goes to
// standard output, which `-` names too.
static std::string outputPath(const CompileOptions &options) {
  if (options.output == "-")
    return {};
  if (!options.output.empty() || options.emit)
    return options.output;
  return llvm::sys::path::stem(options.model).str();
}

// Whatever is written replaces what lies there: never an input, a device only
// by text.
static LogicalResult checkOutput(const CompileOptions &options,
                                 const std::string &path,
                                 Diagnostics &diagnostics) {
  if (llvm::sys::fs::is_directory(options.model))
    return success(); // the import refuses it
  StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    return diagnostics.error("-o: the folder '" + folder +
                             "' does not exist; create it first");
  if (llvm::sys::fs::is_directory(path))
    return diagnostics.error("-o: '" + Twine(path) +
                             "' is a folder; name a file");
  const char *option =
      options.output.empty() ? "-o, by default the model's stem" : "-o";
  if (failed(checkIsNoInput(option, path, inputsOf(options), diagnostics)))
    return failure();
  if (!options.emit && llvm::sys::fs::exists(path) &&
      !llvm::sys::fs::is_regular_file(path))
    return diagnostics.error("-o: '" + Twine(path) +
                             "' is no regular file; an executable needs one");
  return success();
}

static LogicalResult emitText(Compilation &compilation, const std::string &path,
                              Diagnostics &diagnostics) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(compilation.print(stream)))
    return failure();
  if (!path.empty())
    return writeFileAtomically(diagnostics, path, text);
  llvm::outs() << text;
  return success(finishOutput(diagnostics) == kExitDone);
}

int runCompile(const CompileOptions &given) {
  Diagnostics diagnostics;
  CompileOptions options = given;
  if (failed(checkOptions(options, diagnostics)))
    return kExitUsage;
  std::string path = outputPath(options);
  if (path.empty() && !options.emit) {
    (void)diagnostics.error("'" + options.model +
                            "' has no name that the executable could take: "
                            "give it one with -o");
    return kExitUsage;
  }
  if (!path.empty() && failed(checkOutput(options, path, diagnostics)))
    return exitCodeOf(diagnostics);
  options.output = path;
  if (failed(takePlannedStrategy(options, diagnostics)))
    return exitCodeOf(diagnostics);
  ImportOptions import;
  import.refusesGuesses = !options.emit;
  Compilation compilation(options, diagnostics, import);
  // LLVM IR is printed as the object's code generation leaves it.
  Level level = options.emit.value_or(Level::Object);
  if (level == Level::LLVM)
    level = Level::Object;
  if (failed(compilation.runTo(level)) ||
      failed(options.emit ? emitText(compilation, path, diagnostics)
                          : compilation.link(path)))
    return exitCodeOf(diagnostics);
  if (!options.emit)
    compilation.noteGradientsUntold();
  return kExitDone;
}

} // namespace shardonnx
