// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of a training executable, read from its file.

#ifndef SHARDONNX_LIB_DRIVER_INSPECTELF_H
#define SHARDONNX_LIB_DRIVER_INSPECTELF_H

#include "shardonnx/Support/Diagnostics.h"

namespace shardonnx {

/// Whether the file begins as an ELF file does; false when it cannot be read.
bool isElf(llvm::StringRef path);

/// The JSON in the executable's manifest section. The error has been printed
/// when there is none.
mlir::FailureOr<std::string> readManifestSection(llvm::StringRef path,
                                                 Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_INSPECTELF_H
