// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that an exporter's optimizer made one, since they read the same
// value and parameters that start equal: two norms of one input, as GPT-NeoX's
// blocks have them, two heads of zeros, a copied layer. As one they would train
// one set of parameters in the place of two.

#ifndef SHARDONNX_LIB_IMPORT_MERGEDCALLS_H
#define SHARDONNX_LIB_IMPORT_MERGEDCALLS_H

namespace onnx {
class GraphProto;
}

namespace shardonnx {

struct Metadata;

/// Writes the nodes of such an operator out again for the one that the graph
/// lacks, with what the program's signature says it reads; which initializers
/// that are, separateMergedParameters settles behind it. Known is the lost
/// operator by a node that read it in the traced program, and in the graph
/// reads another of the same kind instead; its parameters are those of the one
/// module beside the other's that has the same ones, none of which anything
/// reads.
void separateMergedCalls(::onnx::GraphProto &graph, Metadata &metadata);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_MERGEDCALLS_H
