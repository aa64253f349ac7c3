// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which files beside the model a program reads weights from, and what they are
// known by when it starts.

#ifndef SHARDONNX_DRIVER_EXTERNALFILES_H
#define SHARDONNX_DRIVER_EXTERNALFILES_H

#include "shardonnx/runtime/ExternalFile.h"

#include "mlir/IR/BuiltinOps.h"

namespace shardonnx {

struct FileHash;

/// A file that the model names: relative to the model's folder.
std::string pathBeside(llvm::StringRef modelPath, llvm::StringRef name);

/// The SHA-256 of a file as it is, or of blocks of it (ExternalFile.h). It is
/// read in parts, because it may be larger than the memory, and hashed by the
/// runtime's own code, because llvm::SHA256 is wrong beyond 2 GiB.
FileHash hashOfFile(const std::string &path, int64_t every);

/// Of a module at Level::NN or beyond, in the order of their names.
std::vector<std::string> externalFilesOf(mlir::ModuleOp module,
                                         llvm::StringRef modelPath);

/// What there is of them; a file that is missing is no error before a run wants
/// its bytes.
ExternalFiles describeExternalFiles(const std::string &modelPath,
                                    const std::vector<std::string> &names);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_EXTERNALFILES_H
