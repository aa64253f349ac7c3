// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a collective of an axis of the mesh is laid out on a GPU
// (calls/AxisCollective.cpp). NCCL wants what each rank gives or gets in one
// piece: where a tensor is split along another than its outermost dimension,
// the parts lie side by side in the workspace.

#ifndef SHARDONNX_RUNTIME_CUDA_AXISPLAN_H
#define SHARDONNX_RUNTIME_CUDA_AXISPLAN_H

#include "ElementBytes.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/MeshABI.h"
#include <numeric>

namespace shardonnx::rt::cuda {

/// A tensor [outer, sum of the sections, inner] of which each rank has a part.
struct AxisLayout {
  int64_t outer, inner;
  const int64_t *sections;
  int64_t count;
  bool zigzag = false;

  int64_t size() const {
    return std::accumulate(sections, sections + count, int64_t(0));
  }
  int64_t elements() const { return outer * size() * inner; }
  bool isSideBySide() const { return outer == 1 && count == 1; }
};

struct AxisPlan {
  AxisLayout split;  // of the whole
  AxisLayout joined; // of what an all-to-all gives
  int64_t partBytes; // of a rank; all of a sum or a shift
  /// In the workspace: the parts of what is split or comes together, and what
  /// comes from the ranks of an all-to-all. -1: they lie so in the tensor.
  int64_t parts = -1, received = -1;
  int64_t bytes = 0;
};

inline AxisPlan planAxis(const ShxAxisCollective &desc) {
  constexpr int64_t kAlignment = 256;
  AxisPlan plan{
      {desc.outer, desc.inner, desc.sections, desc.sectionCount,
       desc.zigzag != 0},
      {1, desc.joinedInner, desc.joinedSections, desc.joinedSectionCount},
      0};
  int64_t whole = plan.split.elements() * bytesOf(desc.dtype);
  bool each = desc.call == SHX_AXIS_ALL_REDUCE || desc.call == SHX_AXIS_SHIFT;
  plan.partBytes = each ? whole : whole / desc.parts;
  bool exchange = desc.call == SHX_AXIS_ALL_TO_ALL;
  if (exchange)
    plan.joined.outer = plan.split.elements() / plan.joined.elements();
  auto take = [&] {
    int64_t at = plan.bytes;
    plan.bytes += alignTo(whole, kAlignment);
    return at;
  };
  if ((exchange || desc.call == SHX_AXIS_ALL_GATHER ||
       desc.call == SHX_AXIS_REDUCE_SCATTER) &&
      !plan.split.isSideBySide())
    plan.parts = take();
  if (exchange && !plan.joined.isSideBySide())
    plan.received = take();
  return plan;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_AXISPLAN_H
