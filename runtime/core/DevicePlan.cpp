// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See DevicePlan.h.

#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <set>

namespace shardonnx {
namespace {

// A buffer as the program's plan has it, and how many bytes it needs here.
struct Buffer {
  int64_t begin, planned, needed;
};

// Moves each buffer up by the largest padding for every distinct begin below
// its own. A buffer that ended before another one's begin still does: that one
// has moved by at least one padding more.
std::vector<Interval> moveApart(const std::vector<Buffer> &buffers) {
  int64_t padding = 0;
  std::set<int64_t> begins;
  for (const Buffer &buffer : buffers) {
    padding = std::max(padding, buffer.needed - buffer.planned);
    begins.insert(buffer.begin);
  }
  padding = alignTo(padding, kDeviceAlignmentBytes);
  std::vector<Interval> result;
  for (const Buffer &buffer : buffers) {
    auto below = std::distance(begins.begin(), begins.find(buffer.begin));
    int64_t begin = buffer.begin + below * padding;
    result.push_back({begin, begin + buffer.needed});
  }
  return result;
}

int64_t spaceBytes(const std::vector<Interval> &buffers, int64_t planned) {
  int64_t end = planned;
  for (const Interval &buffer : buffers)
    end = std::max(end, buffer.end);
  return end;
}

Buffer gatherBuffer(const Manifest::Unit &unit, const DevicePlan::Unit &plan,
                    int64_t element, int64_t owners) {
  Buffer buffer{unit.paramOffsetBytes, unit.gatheredBytes(),
                plan.slice * owners * element};
  if (unit.frozenLength > 0)
    buffer.needed =
        std::max(buffer.needed,
                 unit.frozenOffsetBytes + plan.frozenSlice * owners * element);
  buffer.needed = std::max(buffer.needed, buffer.planned);
  return buffer;
}

} // namespace

DevicePlan planDevice(const Manifest &m, int ranks, int64_t accumulate) {
  DevicePlan plan;
  plan.gradientsInPlace = gradientsAreTheirSum(m, ranks, accumulate);
  std::vector<Buffer> gather, gradients;
  auto bytes = [](int64_t elements, int64_t size) {
    return alignTo(elements * size, kDeviceAlignmentBytes);
  };
  for (const Manifest::Unit &unit : m.units) {
    int64_t owners = unit.sharded ? ranks : 1;
    int64_t param = dtypeBytes(unit.paramType);
    int64_t reduce = dtypeBytes(unit.reduceType);
    DevicePlan::Unit u;
    u.slice = sliceLength(unit.length, owners);
    u.frozenSlice = sliceLength(unit.frozenLength, owners);
    plan.units.push_back(u);
    gather.push_back(gatherBuffer(unit, u, param, owners));
    int64_t planned = unit.gradientBytes();
    gradients.push_back({unit.gradOffsetBytes, planned,
                         std::max(planned, u.slice * owners * reduce)});
    int64_t owned = ownedInterval(unit.length, 0, owners).size();
    plan.masterBytes += bytes(owned, 4);
    plan.momentBytes += bytes(owned, 4) * m.optimizerStates();
    plan.reducedBytes += bytes(owned, 4);
    plan.frozenBytes +=
        bytes(ownedInterval(unit.frozenLength, 0, owners).size(), param);
  }
  std::vector<Interval> movedGather = moveApart(gather),
                        movedGradients = moveApart(gradients);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    plan.units[u].gather = movedGather[u];
    plan.units[u].gradients = movedGradients[u];
  }
  plan.gatherBytes = spaceBytes(movedGather, m.gatherSpace.bytes);
  plan.gradientBytes = plan.gradientsInPlace
                           ? 0
                           : spaceBytes(movedGradients, m.gradientSpace.bytes);
  return plan;
}

} // namespace shardonnx
