// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What forward itself writes: moving averages, queues, codebooks, the vectors
// of a spectral norm. A program changes nothing but what trains.

#ifndef SHARDONNX_LIB_IMPORT_CHANGEDBUFFERS_H
#define SHARDONNX_LIB_IMPORT_CHANGEDBUFFERS_H

#include "Parameters.h"

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Adds what the program's signature says that forward writes, and the running
/// statistics of batch norms that take those of the batch, with the outputs of
/// the graph that depend on what is in there before.
void listChanged(const ::onnx::GraphProto &graph, const Metadata &metadata,
                 llvm::ArrayRef<Initializer> initializers,
                 std::vector<Untrained> &untrained);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_CHANGEDBUFFERS_H
