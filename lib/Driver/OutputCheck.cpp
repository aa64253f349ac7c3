// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OutputCheck.h.

#include "OutputCheck.h"
#include "ExternalFiles.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/runtime/SameFile.h"

using namespace mlir;

namespace shardonnx {

std::vector<InputName> inputsOf(const CompileOptions &options) {
  return {{"the model itself", options.model},
          {"the file that --config names", options.config},
          {"the file that --tensor-plan names", options.tensorPlan}};
}

void addWeightFiles(StringRef modelPath, const std::set<std::string> &names,
                    std::vector<InputName> &inputs) {
  for (const std::string &name : names)
    inputs.push_back(
        {"a file of the model's weights", pathBeside(modelPath, name)});
}

std::vector<InputName> weightFilesOf(ModuleOp module, StringRef modelPath) {
  std::set<std::string> names;
  for (auto initializer : module.getOps<onnx::InitializerOp>())
    if (std::optional<StringRef> file = initializer.getFile())
      names.insert(file->str());
  std::vector<InputName> files;
  addWeightFiles(modelPath, names, files);
  return files;
}

LogicalResult checkIsNoInput(StringRef option, const std::string &path,
                             ArrayRef<InputName> inputs,
                             Diagnostics &diagnostics) {
  for (const InputName &input : inputs)
    if (!path.empty() && !input.path.empty() && isSameFile(path, input.path))
      return diagnostics.usageError(option + ": '" + Twine(path) + "' is " +
                                    input.what + "; name another file");
  return success();
}

} // namespace shardonnx
