// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ops of old opsets mean and the ONNX library's converter forgets.

#ifndef SHARDONNX_LIB_IMPORT_OLDOPSETS_H
#define SHARDONNX_LIB_IMPORT_OLDOPSETS_H

#include "llvm/ADT/StringSet.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Writes out what an op of `opset` means where the same node means something
/// else in a later one; to be called before the graph is converted.
void writeOutOldOps(::onnx::GraphProto &graph, int opset);

/// Completes a graph that was converted from `opset`: attributes whose defaults
/// have changed, and constants that the converter has made initializers: others
/// than the `known`, which were there before and may be trained.
void completeConverted(::onnx::GraphProto &graph, int opset,
                       const llvm::StringSet<> &known);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_OLDOPSETS_H
