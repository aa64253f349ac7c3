// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whatever a command writes takes the place of what lies there. That is never
// what the same command reads.

#ifndef SHARDONNX_LIB_DRIVER_OUTPUTCHECK_H
#define SHARDONNX_LIB_DRIVER_OUTPUTCHECK_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/Diagnostics.h"

#include "mlir/IR/BuiltinOps.h"

#include <set>

namespace shardonnx {

/// A file that a command reads. `what` goes on from "'FILE' is".
struct InputName {
  std::string what;
  std::string path;
};

/// The model, and the files that options name.
std::vector<InputName> inputsOf(const CompileOptions &options);
/// What lies beside the model, under names relative to its folder.
void addWeightFiles(llvm::StringRef modelPath,
                    const std::set<std::string> &names,
                    std::vector<InputName> &inputs);
/// The files beside the model that hold its weights, of a module of
/// Level::Onnx.
std::vector<InputName> weightFilesOf(mlir::ModuleOp module,
                                     llvm::StringRef modelPath);

/// Prints the error where `path`, which `option` names, is one of `inputs`.
mlir::LogicalResult checkIsNoInput(llvm::StringRef option,
                                   const std::string &path,
                                   llvm::ArrayRef<InputName> inputs,
                                   Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_OUTPUTCHECK_H
