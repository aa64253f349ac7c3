// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds dynamic dimensions by the values that inputs are given.

#ifndef SHARDONNX_LIB_IMPORT_GIVENINPUTS_H
#define SHARDONNX_LIB_IMPORT_GIVENINPUTS_H

#include "mlir/Support/LLVM.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

class Diagnostics;
struct ImportOptions;

/// Gives every input of the graph that is no weight the shape of its value; an
/// input without one, a value without an input and a shape that cannot be are
/// errors.
mlir::LogicalResult bindGivenInputs(::onnx::GraphProto &graph,
                                    const ImportOptions &options,
                                    Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_GIVENINPUTS_H
