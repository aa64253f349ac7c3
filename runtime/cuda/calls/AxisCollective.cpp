// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_axis_collective, and the same as a start and a wait: NCCL's collectives,
// and on the compute stream copies of parts where these do not lie in one piece
// (plan/AxisPlan.h).

#include "AxisParts.h"

namespace shardonnx::rt::cuda {
namespace {

class AxisCall {
public:
  AxisCall(Context &context, const ShxAxisCollective &desc, const void *from,
           void *to, void *workspace)
      : context(context), desc(desc), plan(planAxis(desc)),
        from(static_cast<const uint8_t *>(from)),
        to(static_cast<uint8_t *>(to)),
        workspace(static_cast<uint8_t *>(workspace)) {}

  void run() {
    atOnce = true;
    start();
    wait();
  }

  void start() {
    switch (static_cast<ShxAxisCall>(desc.call)) {
    case SHX_AXIS_ALL_REDUCE:
    case SHX_AXIS_SHIFT:
      return exchange(from, to);
    case SHX_AXIS_ALL_GATHER:
      return exchange(from, plan.parts < 0 ? to : workspace + plan.parts);
    case SHX_AXIS_ALL_SLICE:
      return takePart(plan.split, source(), from, to);
    case SHX_AXIS_REDUCE_SCATTER:
      return exchange(separated(), to);
    case SHX_AXIS_PART_PAD:
      shx_zero(&context, to, plan.partBytes * desc.parts);
      return putPart(plan.split, source(), from, to);
    case SHX_AXIS_PART_ROLL:
      return roll(mine() + 1);
    case SHX_AXIS_PART_UNROLL:
      return roll(desc.parts - mine() - 1);
    case SHX_AXIS_ALL_TO_ALL:
      return exchange(separated(),
                      plan.received < 0 ? to : workspace + plan.received);
    }
  }

  void wait() {
    switch (static_cast<ShxAxisCall>(desc.call)) {
    case SHX_AXIS_ALL_SLICE:
    case SHX_AXIS_PART_PAD:
    case SHX_AXIS_PART_ROLL:
    case SHX_AXIS_PART_UNROLL:
      return; // send nothing
    case SHX_AXIS_ALL_REDUCE:
    case SHX_AXIS_SHIFT:
    case SHX_AXIS_REDUCE_SCATTER:
      return awaitExchange();
    case SHX_AXIS_ALL_GATHER:
      awaitExchange();
      return join(plan.split, plan.parts);
    case SHX_AXIS_ALL_TO_ALL:
      awaitExchange();
      return join(plan.joined, plan.received);
    }
  }

private:
  int mine() const { return context.collectives->axisRank(axis()); }
  int source() const { return placeBehind(desc, mine()); }
  MeshAxis axis() const { return static_cast<MeshAxis>(desc.axis); }

  void exchange(const void *source, void *target) {
    AxisExchange what = {static_cast<ShxAxisCall>(desc.call),
                         axis(),
                         static_cast<ShxDType>(desc.dtype),
                         source,
                         target,
                         plan.partBytes,
                         desc.behind};
    if (atOnce)
      context.collectives->exchangeAlong(what);
    else
      context.collectives->startAlong(what);
  }
  void awaitExchange() {
    if (!atOnce)
      context.collectives->waitAlong();
  }

  // Parts that have come side by side into the workspace.
  void join(const AxisLayout &layout, int64_t at) {
    for (int r = 0; at >= 0 && r < desc.parts; ++r)
      putPart(layout, r, workspace + at + r * plan.partBytes, to);
  }

  // Of each row, which is one section, part `first` comes first.
  void roll(int64_t first) {
    int64_t row = plan.split.size() * plan.split.inner;
    int64_t before = row / desc.parts * (first % desc.parts);
    copyRows(row, row - before, before, 0);
    copyRows(row, before, 0, row - before);
  }
  void copyRows(int64_t row, int64_t count, int64_t source, int64_t target) {
    int64_t element = bytesOf(desc.dtype);
    ShxCopy copy{};
    copy.rank = 2;
    copy.srcDtype = copy.dstDtype = desc.dtype;
    copy.dims[0] = plan.split.outer, copy.dims[1] = count;
    copy.srcStride[0] = copy.dstStride[0] = row;
    copy.srcStride[1] = copy.dstStride[1] = 1;
    shx_copy(&context, &copy, from + source * element, to + target * element);
  }

  // The operand, the parts of all ranks behind one another.
  const uint8_t *separated() {
    if (plan.parts < 0)
      return from;
    uint8_t *parts = workspace + plan.parts;
    for (int r = 0; r < desc.parts; ++r)
      takePart(plan.split, r, from, parts + r * plan.partBytes);
    return parts;
  }

  void takePart(const AxisLayout &layout, int part, const uint8_t *whole,
                uint8_t *target) {
    partsOf(layout).take(part, whole, target);
  }
  void putPart(const AxisLayout &layout, int part, const uint8_t *source,
               uint8_t *whole) {
    partsOf(layout).put(part, source, whole);
  }
  AxisParts partsOf(const AxisLayout &layout) {
    return {context, layout, desc.parts, desc.dtype};
  }

  Context &context;
  const ShxAxisCollective &desc;
  const AxisPlan plan;
  const uint8_t *from;
  uint8_t *to, *workspace;
  bool atOnce = false;
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" {

void shx_axis_collective(ShxContext *ctx, const ShxAxisCollective *desc,
                         const void *from, void *to, void *workspace) {
  AxisCall(contextOf(ctx), *desc, from, to, workspace).run();
}
void shx_axis_start(ShxContext *ctx, const ShxAxisCollective *desc,
                    const void *from, void *to, void *workspace) {
  AxisCall(contextOf(ctx), *desc, from, to, workspace).start();
}
void shx_axis_wait(ShxContext *ctx, const ShxAxisCollective *desc,
                   const void *from, void *to, void *workspace) {
  AxisCall(contextOf(ctx), *desc, from, to, workspace).wait();
}

} // extern "C"
