// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a file does not say of the module that it was exported from.

#ifndef SHARDONNX_LIB_IMPORT_UNTOLD_H
#define SHARDONNX_LIB_IMPORT_UNTOLD_H

#include "Parameters.h"
#include "shardonnx/Import/Import.h"

namespace shardonnx {

/// Made by PyTorch's older exporter: names are those of the state dict, but for
/// what it computed, and constants of the program are no initializers.
bool isLegacy(const ::onnx::ModelProto &model, const Metadata &metadata);

/// Such a file to which `annotate` has not added what its module is.
bool isUntold(const ::onnx::ModelProto &model, const Metadata &metadata);

/// What the older exporter has computed is named by its node, `onnx::Conv_9`;
/// what a tool has folded of its graph, by the node that computed it
/// (`/attn/Transpose_2_output_0`).
bool isComputedName(llvm::StringRef name);

/// A Constant of its graph that a tool has made an initializer: a number of the
/// program.
bool isLiteralName(llvm::StringRef name);

/// What no exporter says of a module: the older one neither which arrays are
/// buffers nor which parameters are frozen, none whether adapters train alone.
/// One warning says so and names what may be either; where an executable is
/// made and nothing was given that decides, it is an error.
llvm::LogicalResult tellUntold(const ::onnx::ModelProto &model,
                               const Metadata &metadata,
                               const ImportOptions &options,
                               llvm::MutableArrayRef<Initializer> initializers,
                               Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_UNTOLD_H
