// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a file does not say of the module that it was exported from.

#ifndef SHARDONNX_LIB_IMPORT_UNTOLD_H
#define SHARDONNX_LIB_IMPORT_UNTOLD_H

#include "Parameters.h"

namespace shardonnx {

/// Is the array named as PyTorch's layers name their parameters? One number of
/// that name is no constant of the program.
bool isWeightName(llvm::StringRef name);

/// PyTorch's older exporter writes neither which arrays are buffers nor which
/// parameters are frozen: one warning says so, and names what may be either.
/// Nothing is said of files with a signature.
void warnUntold(const ::onnx::ModelProto &model, const Metadata &metadata,
                llvm::ArrayRef<Initializer> initializers,
                llvm::StringRef modelPath, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_UNTOLD_H
