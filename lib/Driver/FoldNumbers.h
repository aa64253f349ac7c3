// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the raise knows of numbers that follow from shapes.

#ifndef SHARDONNX_LIB_DRIVER_FOLDNUMBERS_H
#define SHARDONNX_LIB_DRIVER_FOLDNUMBERS_H

#include "shardonnx/Import/Import.h"

namespace shardonnx {

/// ImportOptions::FoldNumbers: takes the model through import and raise in a
/// context of its own. What cannot be read or folded has no value; nothing is
/// printed.
std::vector<std::optional<int64_t>>
foldNumbers(llvm::StringRef model, const llvm::StringMap<GivenInput> &inputs);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_FOLDNUMBERS_H
