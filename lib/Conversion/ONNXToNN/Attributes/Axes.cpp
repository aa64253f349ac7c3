// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads axes.

#include "Axes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace shardonnx {

using nn::HostTensor;

std::optional<SmallVector<int64_t>> shortInts(const HostTensor *tensor) {
  constexpr int64_t longest = 1 << 16;
  if (!tensor || tensor->isFloat() || tensor->getRank() > 1 ||
      tensor->getNumElements() > longest)
    return std::nullopt;
  return tensor->flattenInts();
}

std::optional<unsigned> normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis >= rank)
    return std::nullopt;
  return static_cast<unsigned>(axis);
}

std::optional<SmallVector<int64_t>>
readAxes(onnx::NodeOp node, const HostTensor *input, int64_t rank) {
  SmallVector<int64_t> axes;
  if (input) {
    auto list = shortInts(input);
    if (!list)
      return std::nullopt;
    axes = *list;
  } else {
    node.getInts("axes", axes);
  }
  for (int64_t &axis : axes) {
    std::optional<unsigned> positive = normalizeAxis(axis, rank);
    if (!positive)
      return std::nullopt;
    axis = *positive;
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return std::nullopt;
  return axes;
}

std::optional<SmallVector<int64_t>>
readReducedAxes(onnx::NodeOp node, const HostTensor *input, int64_t rank) {
  auto axes = readAxes(node, input, rank);
  if (axes && axes->empty() && node.getInt("noop_with_empty_axes", 0) == 0)
    llvm::append_range(*axes, llvm::seq<int64_t>(0, rank));
  return axes;
}

} // namespace shardonnx
