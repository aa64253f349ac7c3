// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx compile`: a model to an executable, or to the level that `--emit`
// names.

#include "shardonnx/Driver/Compilation.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

// The default is the model's stem, in the current folder.
static std::string outputPath(const CompileOptions &options) {
  if (!options.output.empty() || !options.emit.empty())
    return options.output;
  return llvm::sys::path::stem(options.model).str();
}

// What can be said before the model is read.
static LogicalResult checkOptions(const CompileOptions &options,
                                  Diagnostics &diagnostics) {
  if (options.target == "cuda")
    return diagnostics.error("--target=cuda: this build has no CUDA target; "
                             "use --target=cpu");
  for (const char *later : {"shard_opt", "hybrid_shard", "hybrid_shard_zero2"})
    if (options.strategy == later)
      return diagnostics.error(
          "--strategy=" + options.strategy +
          ": not built yet; use full_shard, shard_grad_op or no_shard");
  if (options.strictNumerics && options.paramDtype != "f32")
    return diagnostics.error(
        "--strict-numerics: kernels keep the intermediate values of " +
        options.paramDtype +
        " in f32, which rounds otherwise; leave --param-dtype at f32");
  if (options.emit == "ptx")
    return diagnostics.error("--emit=ptx: only --target=cuda has PTX; use "
                             "--emit=llvm or --emit=obj");
  return success();
}

static LogicalResult checkOutput(const std::string &path,
                                 Diagnostics &diagnostics) {
  StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    return diagnostics.error("-o: the folder '" + folder +
                             "' does not exist; create it first");
  if (llvm::sys::fs::is_directory(path))
    return diagnostics.error("-o: '" + Twine(path) +
                             "' is a folder; name a file");
  return success();
}

static LogicalResult emitText(Compilation &compilation,
                              const std::string &path) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(compilation.print(stream)))
    return failure();
  if (!path.empty())
    return writeFileAtomically(compilation.diagnostics(), path, text);
  llvm::outs() << text;
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return success();
  std::error_code error = llvm::outs().error();
  llvm::outs().clear_error();
  return compilation.diagnostics().error("cannot write to standard output: " +
                                         error.message());
}

int runCompile(const CompileOptions &options) {
  Compilation compilation(options);
  if (failed(checkOptions(options, compilation.diagnostics())))
    return kExitUsage;
  std::string path = outputPath(options);
  if (!path.empty() && failed(checkOutput(path, compilation.diagnostics())))
    return kExitInput;
  // LLVM IR is printed as the object's code generation leaves it.
  Level level = *parseLevel(options.emit);
  bool whole = level == Level::Link;
  if (whole || level == Level::LLVM)
    level = Level::Object;
  if (failed(compilation.runTo(level)) ||
      failed(whole ? compilation.link(path) : emitText(compilation, path)))
    return kExitInput;
  return kExitDone;
}

} // namespace shardonnx
