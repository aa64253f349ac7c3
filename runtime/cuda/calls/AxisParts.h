// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between a tensor and the parts that the ranks of an axis have of it,
// as work of the compute stream.

#ifndef SHARDONNX_RUNTIME_CUDA_AXISPARTS_H
#define SHARDONNX_RUNTIME_CUDA_AXISPARTS_H

#include "../launch/Context.h"
#include "../plan/AxisPlan.h"
#include "shardonnx/runtime/Mesh.h"

namespace shardonnx::rt::cuda {

class AxisParts {
public:
  AxisParts(Context &context, const AxisLayout &layout, int parts,
            int32_t dtype)
      : context(context), layout(layout), parts(parts), dtype(dtype) {}

  void take(int part, const uint8_t *whole, uint8_t *target) const {
    forSections(part, [&](ShxCopy &copy, int64_t at, int64_t inWhole) {
      copy.srcStride[0] = layout.size() * layout.inner;
      copy.dstStride[0] = copy.srcStride[0] / parts;
      shx_copy(&context, &copy, whole + inWhole, target + at);
    });
  }
  void put(int part, const uint8_t *source, uint8_t *whole) const {
    forSections(part, [&](ShxCopy &copy, int64_t at, int64_t inWhole) {
      copy.dstStride[0] = layout.size() * layout.inner;
      copy.srcStride[0] = copy.dstStride[0] / parts;
      shx_copy(&context, &copy, source + at, whole + inWhole);
    });
  }

private:
  // Calls visit(copy, at, inWhole): what the part has of each section, in bytes
  // from its begin and from that of the whole; of the copy, the outer strides
  // are missing.
  template <typename Visit> void forSections(int part, Visit visit) const {
    int64_t element = bytesOf(dtype) * layout.inner;
    SplitPart ofPart(layout.sections, static_cast<size_t>(layout.count), part,
                     parts, layout.zigzag);
    int64_t share = 0;
    for (int64_t at = 0; at < layout.size() / parts; at += share) {
      SplitPart::Run run = ofPart.runOf(at);
      share = run.count;
      ShxCopy copy{};
      copy.rank = 2;
      copy.srcDtype = copy.dstDtype = dtype;
      copy.dims[0] = layout.outer, copy.dims[1] = share * layout.inner;
      copy.srcStride[1] = copy.dstStride[1] = 1;
      visit(copy, at * element, run.whole * element);
    }
  }

  Context &context;
  const AxisLayout layout;
  const int parts;
  const int32_t dtype;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_AXISPARTS_H
