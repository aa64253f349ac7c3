// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See DevicePlan.h.

#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/GatherCodes.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <algorithm>
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

// Of `owners` equal parts of each section, gathered in place.
int64_t paddedBytes(const Manifest::Unit &unit, int64_t slice,
                    int64_t frozenSlice, int64_t owners) {
  int64_t element = dtypeBytes(unit.paramType);
  int64_t bytes = slice * owners * element;
  if (unit.frozenLength > 0)
    bytes = std::max(bytes,
                     unit.frozenOffsetBytes + frozenSlice * owners * element);
  return bytes;
}

Buffer gatherBuffer(const Manifest::Unit &unit, const DevicePlan::Unit &plan,
                    int64_t owners) {
  if (plan.inPlace)
    return {0, 0, 0};
  Buffer buffer{unit.paramOffsetBytes, unit.gatheredBytes(), 0};
  buffer.needed = std::max(
      {buffer.planned, paddedBytes(unit, plan.slice, plan.frozenSlice, owners),
       paddedBytes(unit, plan.groupSlice, plan.groupFrozenSlice, plan.group)});
  return buffer;
}

int64_t aligned(int64_t elements, int64_t size) {
  return alignTo(elements * size, kDeviceAlignmentBytes);
}

// Of whole units, and of those that a smaller group gathers again.
int64_t imageBytes(const Manifest::Unit &unit, const DevicePlan::Unit &plan,
                   int64_t owners) {
  if (!unit.sendsImages() || owners == 1)
    return 0;
  auto of = [&](int64_t slice, int64_t ranks) {
    return ranks * gatherImageBytes(unit.gatherType, slice);
  };
  return std::max(of(plan.slice, owners), of(plan.groupSlice, plan.group));
}

DevicePlan::Unit planUnit(const Manifest::Unit &unit, int64_t owners, int group,
                          int64_t alignment) {
  DevicePlan::Unit u;
  u.slice = sliceLength(unit.length, owners, alignment);
  u.frozenSlice = sliceLength(unit.frozenLength, owners, alignment);
  u.group = group;
  if (group > 0) {
    u.groupSlice = sliceLength(unit.length, group, alignment);
    u.groupFrozenSlice = sliceLength(unit.frozenLength, group);
  }
  return u;
}

// Masters, what products read of them, and frozen weights, where they are not
// offloaded. In place they are one buffer; else gathers read whole slices.
void addWeights(DevicePlan &plan, const Manifest &m,
                const Manifest::Unit &unit) {
  const DevicePlan::Unit &u = plan.units.back();
  int64_t element = dtypeBytes(unit.paramType);
  bool masters = unit.sendsMasters();
  int64_t &params = masters ? plan.masterBytes : plan.paramBytes;
  if (u.inPlace) {
    int64_t frozen = unit.frozenLength * element;
    params += aligned(unit.gatheredBytes(), 1) - frozen;
    plan.frozenBytes += frozen;
  } else {
    params += aligned(u.slice, element);
    plan.frozenBytes += aligned(u.frozenSlice, element);
  }
  if (!masters)
    plan.masterBytes += aligned(u.slice, masterBytes(m, unit));
}

// All of the optimizer's tensors over a slice, each aligned; Muon's matrices
// have one.
int64_t momentBytes(const Manifest &m, int64_t owned, int64_t ofMatrices = 0) {
  int64_t bytes = 0;
  for (int i = 0; i < m.optimizerStates(); ++i) {
    int64_t n = i == 0 ? owned : owned - ofMatrices;
    bytes += aligned(n, dtypeBytes(m.optimizerType));
    if (m.blockwiseState())
      bytes += aligned(stateBlocks(n), sizeof(float));
  }
  return bytes;
}

// Of the largest rank: the first, but of units that begin with matrices.
int64_t largestMoments(const Manifest &m, const Topology &topology) {
  int64_t largest = 0;
  int ranks = m.hasMatrices() ? topology.groupSize() : 1;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t bytes = 0;
    for (const Manifest::Unit &unit : m.units) {
      Interval owned = topology.ownedAt(unit.sharded, unit.length, rank);
      bytes +=
          momentBytes(m, owned.size(),
                      owned.size() - behind(unit.matrixLength, owned).size());
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Of the slices of rank 0, which owns no less than any other.
void addOwned(DevicePlan &plan, const Manifest &m, const Manifest::Unit &unit,
              const Topology &topology, Offload offload) {
  int64_t param = dtypeBytes(unit.paramType);
  int64_t owned = topology.owned(unit.sharded, unit.length, 0).size();
  int64_t frozen = topology.owned(unit.sharded, unit.frozenLength, 0).size();
  bool masters = offload == Offload::Params;
  if (!masters) {
    addWeights(plan, m, unit);
  } else {
    int64_t master = masterBytes(m, unit);
    plan.hostBytes += aligned(owned, master) + aligned(frozen, param);
    plan.stagingMasterBytes = std::max(plan.stagingMasterBytes, master);
    if (!unit.sendsMasters()) { // what gathers read
      plan.hostBytes += aligned(owned, param);
      plan.stagingCastBytes = std::max(plan.stagingCastBytes, param);
    }
  }
  if (offload != Offload::None)
    plan.stagingElements =
        std::min(kOffloadElements, std::max(plan.stagingElements, owned));
  plan.reducedBytes += aligned(owned, 4);
  const DevicePlan::Unit &u = plan.units.back();
  plan.reshardedBytes +=
      aligned(u.groupSlice, param) + aligned(u.groupFrozenSlice, param);
}

void planStaging(DevicePlan &plan, const Manifest &m, Offload offload) {
  int64_t n = plan.stagingElements;
  int64_t part = momentBytes(m, n);
  if (offload == Offload::Params)
    part +=
        aligned(n, plan.stagingMasterBytes) + aligned(n, plan.stagingCastBytes);
  plan.stagingBytes = kOffloadParts * part;
}

} // namespace

int reshardGroup(const Manifest::Unit &unit, const Topology &topology) {
  int owners = topology.groupSize();
  bool smaller = unit.sharded && unit.reshardGroup > 1 &&
                 unit.reshardGroup < owners && owners % unit.reshardGroup == 0;
  return smaller ? static_cast<int>(unit.reshardGroup) : 0;
}

int64_t deviceInputBytes(const Manifest &manifest) {
  int64_t bytes = documentTableBytes(manifest.maxDocuments);
  for (const Manifest::Input &input : manifest.inputs)
    bytes += alignTo(input.bytes(), kDeviceAlignmentBytes);
  return bytes;
}

DevicePlan planDevice(const Manifest &m, const Topology &topology,
                      int64_t accumulate, Offload offload) {
  DevicePlan plan;
  plan.gradientsInPlace = gradientsAreTheirSum(m, topology.ranks, accumulate);
  std::vector<Buffer> gather, gradients;
  for (const Manifest::Unit &unit : m.units) {
    int64_t owners = unit.sharded ? topology.groupSize() : 1;
    plan.units.push_back(planUnit(unit, owners, reshardGroup(unit, topology),
                                  topology.sliceAlignment));
    plan.units.back().inPlace = owners == 1 && offload != Offload::Params;
    const DevicePlan::Unit &u = plan.units.back();
    gather.push_back(gatherBuffer(unit, u, owners));
    plan.imageBytes = std::max(plan.imageBytes, imageBytes(unit, u, owners));
    int64_t planned = unit.gradientBytes();
    gradients.push_back(
        {unit.gradOffsetBytes, planned,
         std::max(planned, u.slice * owners * dtypeBytes(unit.reduceType))});
    addOwned(plan, m, unit, topology, offload);
  }
  int64_t &moments =
      offload == Offload::None ? plan.momentBytes : plan.hostBytes;
  moments += largestMoments(m, topology);
  plan.muon = planDeviceMuon(m, topology);
  planStaging(plan, m, offload);
  std::vector<Interval> movedGather = moveApart(gather),
                        movedGradients = moveApart(gradients);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    plan.units[u].gather = movedGather[u];
    plan.units[u].gradients = movedGradients[u];
  }
  bool copies = std::any_of(plan.units.begin(), plan.units.end(),
                            [](const auto &unit) { return !unit.inPlace; });
  plan.gatherBytes = copies ? spaceBytes(movedGather, m.gatherSpace.bytes) : 0;
  plan.gradientBytes = plan.gradientsInPlace
                           ? 0
                           : spaceBytes(movedGradients, m.gradientSpace.bytes);
  return plan;
}

} // namespace shardonnx
