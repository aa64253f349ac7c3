// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What PyTorch's operators were given and their ONNX nodes have no place for:
// each changes gradients or the loss, and is read from what the exporter wrote
// of the traced program.

#ifndef SHARDONNX_LIB_IMPORT_DROPPEDARGUMENTS_H
#define SHARDONNX_LIB_IMPORT_DROPPEDARGUMENTS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir {
class NamedAttrList;
class Builder;
} // namespace mlir

namespace onnx {
class GraphProto;
}

namespace shardonnx {

struct DroppedArguments {
  /// `padding_idx` of an embedding: the row that gets no gradient.
  std::optional<int64_t> paddingIndex;
  /// `label_smoothing` of a cross-entropy.
  double labelSmoothing = 0;
  /// The node is `x.detach()`.
  bool detaches = false;
  /// A batch norm takes the statistics of the batch: its node, as the exporter
  /// writes it, those of inference.
  bool trainsNorm = false;
  /// A scatter takes the mean of what it puts at one place: its node, as the
  /// exporter writes it, the last.
  bool averages = false;
  /// A Clip whose bounds are tensors, or which the exporter's optimizer made of
  /// a minimum and a maximum: at a tie each has half of the gradient.
  bool ties = false;
  /// `divisor_override` of an average pool; 0: none.
  int64_t divisor = 0;
  /// A Max or Min that is a clamp by numbers: on a bound there is no gradient.
  bool cuts = false;
  /// A ReduceMax or ReduceMin that is torch.max(x, dim), or min: the gradient
  /// is the first one's, not shared.
  bool first = false;
  /// A Squeeze that is torch.squeeze(x, dim): axes longer than 1 stay.
  bool keepsLonger = false;

  /// Adds them as attributes of the ONNX node.
  void addTo(mlir::NamedAttrList &attributes, mlir::Builder &builder) const;
};

/// `fxNode` is the metadata of a node of type `op`: `%embedding : [num_users=1]
/// = call_function[target=torch.ops.aten.embedding.default](args = (%p_weight,
/// %ids, 0), kwargs = {})`.
DroppedArguments readDroppedArguments(llvm::StringRef op,
                                      llvm::StringRef fxNode);

/// The first node that read `x.detach()` when it was traced, where the
/// exporter's optimizer has erased what detached; empty if there is none.
/// Constants that `isTrained` denies have no gradient to be stopped.
std::string
findErasedDetach(const ::onnx::GraphProto &graph,
                 llvm::function_ref<bool(llvm::StringRef)> isTrained);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_DROPPEDARGUMENTS_H
