// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters that an exporter merged because they start equal (norm weights of
// ones, projections of zeros, copies of a layer). As one parameter they would
// train differently, so each gets its own initializer again, with the same
// initial bytes. What was tied stays one.

#ifndef SHARDONNX_LIB_IMPORT_MERGEDPARAMETERS_H
#define SHARDONNX_LIB_IMPORT_MERGEDPARAMETERS_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Separates merged parameters before anything reads the graph, and puts back
/// biases that were dropped because they are zeros. Witnesses that an
/// initializer was several parameters, the surest first:
///  - the framework's operator, which names each parameter that it reads;
///  - the program's signature with the path of the reading node's module;
///  - an Identity, which the older exporter leaves for each name it merged;
///  - the path of the module alone.
/// A parameter that starts with all elements equal is taken for a merged one
/// where none of them can say it: that is an error. `initializers[i]` and the
/// graph's initializer i are the same.
llvm::LogicalResult separateMergedParameters(
    ::onnx::GraphProto &graph, Metadata &metadata, llvm::StringRef modelPath,
    std::vector<Initializer> &initializers, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_MERGEDPARAMETERS_H
