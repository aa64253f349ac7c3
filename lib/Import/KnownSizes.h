// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes that a graph computes of shapes: the ONNX library's inference follows
// few of them.

#ifndef SHARDONNX_LIB_IMPORT_KNOWNSIZES_H
#define SHARDONNX_LIB_IMPORT_KNOWNSIZES_H

#include "KnownTensors.h"

namespace onnx {
class ModelProto;
}

namespace shardonnx {

/// The integers of a list, or the one of a number, in a graph whose shapes are
/// inferred; nothing where they do not follow from these.
std::optional<std::vector<int64_t>> sizesIn(const KnownTensors &known,
                                            llvm::StringRef name);

/// Makes constants of sizes that follow from shapes, where nodes read them
/// whose own shapes could not be inferred. Whether there were such.
bool foldSizes(::onnx::ModelProto &model);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_KNOWNSIZES_H
