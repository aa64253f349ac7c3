// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences of tensors whose elements the graph names one by one, as the lists
// of torch.jit.script are once its loops are unrolled.

#ifndef SHARDONNX_LIB_IMPORT_SEQUENCES_H
#define SHARDONNX_LIB_IMPORT_SEQUENCES_H

namespace onnx {
class GraphProto;
}

namespace shardonnx {

/// Replaces what reads such a sequence by what reads its elements:
/// ConcatFromSequence by Concat, SequenceAt by Identity, SequenceMap by copies
/// of its body. A sequence that an op reads or changes at a place that is not
/// constant stays. `opset` is that of the graph.
void resolveSequences(::onnx::GraphProto &graph, int opset);

/// Replaces the reads of parts of SplitToSequence, at places and of sizes that
/// are constant, by those of slices.
void resolveSplits(::onnx::GraphProto &graph, int opset);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_SEQUENCES_H
