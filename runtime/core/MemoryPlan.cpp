// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pages that several ranks map count in equal parts, as the proportional set
// size does.

#include "shardonnx/runtime/MemoryPlan.h"
#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/MuonPlan.h"
#include <algorithm>

namespace shardonnx {
namespace {

// What a process of this runtime takes beside its buffers. Ranks of a machine
// map the same executable; of its code the kernel keeps what a run touches and
// what lies around it. Heap, libraries' data and stacks are a rank's own.
constexpr int64_t kExecutableBytes = 3300 << 10;
constexpr int64_t kProcessBytes = 512 << 10;
constexpr int64_t kThreadBytes = 32 << 10;

// Beside the plan of a GPU. NCCL keeps for each thread block of a communicator
// a buffer of each protocol (4 + 4.7 + 0.5 MiB) for two neighbours, and a few
// MiB where NVLink's switch adds. The driver loads a library's kernels when
// they are first asked for: cuBLASLt's and cuDNN's are the most of it. It keeps
// local memory for every thread that may be resident, for the kernel that wants
// most.
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBytesOfCommunicatorBlock = 24 * kMiB;
constexpr int64_t kCodeBytes = 256 * kMiB, kLocalBytes = 64 * kMiB;
// Forward, backward and update of a parameter, in the functions of a run.
constexpr int64_t kGraphNodesOfParameter = 32, kGraphNodeBytes = 2 << 10;
constexpr int64_t kGraphBytes = 16 * kMiB;

// What the update writes beside the masters, where gathers do not send these.
constexpr const char *kLowPrecision = "low-precision parameters";

// Everything is this rank's own: GPUs share nothing. The context, and the code
// that is loaded into it, are not in it.
std::vector<MemoryItem> planDeviceMemory(const Manifest &m,
                                         const Topology &topology,
                                         int64_t accumulate, Offload offload) {
  DevicePlan plan = planDevice(m, topology, accumulate, offload);
  return {{"master weights", plan.masterBytes},
          {kLowPrecision, plan.paramBytes},
          {"frozen weights", plan.frozenBytes},
          {"optimizer state", plan.momentBytes},
          {"offload buffers", plan.stagingBytes},
          {"reduced gradients", plan.reducedBytes},
          {"gathered parameters", plan.gatherBytes},
          {"gathered parameters on their way", plan.imageBytes},
          {"resharded parameters", plan.reshardedBytes},
          {"full gradients", plan.gradientBytes},
          {"activations and workspaces", m.privateSpace.bytes},
          {"Muon's directions", plan.muon.windowBytes},
          {"Muon's workspace", plan.muon.workspaceBytes},
          {"inputs", kInputCopies * deviceInputBytes(m)},
          {"constants", m.constantBytes}};
}

// What units of the layout take of the gather space, where they are not in
// place; several may lie on the same bytes.
int64_t copiedBytes(const Manifest &m, const Topology &topology,
                    Offload offload, bool sharded) {
  std::vector<Interval> buffers;
  for (const Manifest::Unit &unit : m.units)
    if (unit.sharded == sharded && !gathersInPlace(unit, topology, offload))
      buffers.push_back({unit.paramOffsetBytes,
                         unit.paramOffsetBytes + unit.gatheredBytes()});
  std::sort(
      buffers.begin(), buffers.end(),
      [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
  int64_t bytes = 0, end = 0;
  for (const Interval &buffer : buffers) {
    bytes += std::max<int64_t>(0, buffer.end - std::max(end, buffer.begin));
    end = std::max(end, buffer.end);
  }
  return bytes;
}

// Of a program for CPUs: bytes of so many elements of a unit's owned slice that
// lie in the file. Masters that are the gathered unit stay where they are.
int64_t offloadedOf(const Manifest &m, const Manifest::Unit &unit,
                    const Interval &owned, bool inPlace, Offload offload) {
  if (offload == Offload::None)
    return 0;
  int64_t bytes = m.momentBytes(unit, owned);
  if (offload == Offload::Params && !inPlace)
    bytes +=
        owned.size() * (dtypeBytes(unit.masterType) + lowPrecisionBytes(unit));
  return bytes;
}

// Bytes of a unit's frozen slice that lie there.
int64_t offloadedFrozen(const Manifest::Unit &unit, const Topology &topology,
                        bool inPlace, Offload offload) {
  if (offload != Offload::Params || inPlace)
    return 0;
  return topology.owned(unit.sharded, unit.frozenLength, 0).size() *
         dtypeBytes(unit.paramType);
}

// What a rank of CPUs keeps of a unit beside its gradients.
struct OwnedBytes {
  int64_t masters = 0, params = 0, moments = 0, frozen = 0;
};
OwnedBytes ownedBytes(const Manifest &m, const Manifest::Unit &unit,
                      const Topology &topology, Offload offload) {
  int64_t owners = unit.sharded ? topology.groupHere() : 1;
  Interval slice = topology.owned(unit.sharded, unit.length, 0);
  int64_t owned = slice.size();
  bool inPlace = gathersInPlace(unit, topology, offload);
  // Of a unit that the machine's ranks have once.
  auto shared = [&](int64_t length) {
    return inPlace ? length / owners
                   : topology.owned(unit.sharded, length, 0).size();
  };
  OwnedBytes bytes;
  if (offload != Offload::Params || inPlace) {
    bytes.masters = (unit.sendsMasters() ? shared(unit.length) : owned) *
                    dtypeBytes(unit.masterType);
    bytes.params = shared(unit.length) * lowPrecisionBytes(unit);
    bytes.frozen = shared(unit.frozenLength) * dtypeBytes(unit.paramType);
  }
  if (offload == Offload::None)
    bytes.moments = m.momentBytes(unit, slice);
  return bytes;
}

// The largest rank's: of units that begin with Muon's matrices, which have one
// moment, the last slice is.
int64_t largestMoments(const Manifest &m, const Topology &topology) {
  int64_t largest = 0;
  for (int rank = 0; rank < topology.groupSize(); ++rank) {
    int64_t bytes = 0;
    for (const Manifest::Unit &unit : m.units)
      bytes += m.momentBytes(unit,
                             topology.ownedAt(unit.sharded, unit.length, rank));
    largest = std::max(largest, bytes);
  }
  return largest;
}

// The launcher of several ranks maps the executable as well, about half of it.
int64_t processBytes(const Topology &topology, int threads) {
  int64_t halves = topology.ranksHere > 1 ? 2 * topology.ranksHere + 1 : 2;
  return kProcessBytes + kThreadBytes * threads + 2 * kExecutableBytes / halves;
}

} // namespace

int64_t lowPrecisionBytes(const Manifest::Unit &unit) {
  return unit.sendsMasters() ? 0 : dtypeBytes(unit.paramType);
}

bool keepsMasterHalves(const Manifest &m, const Manifest::Unit &unit) {
  // One kernel updates all units of a type.
  bool gathersParams = std::all_of(
      m.units.begin(), m.units.end(), [&](const Manifest::Unit &other) {
        return other.paramType != unit.paramType ||
               other.gatherType == GatherDtype::Param;
      });
  return m.cuda() &&
         keepsMasterHalves(unit.masterType, unit.paramType, gathersParams);
}

int64_t masterBytes(const Manifest &m, const Manifest::Unit &unit) {
  return dtypeBytes(unit.masterType) - upperHalfBytes(m, unit);
}

int64_t upperHalfBytes(const Manifest &m, const Manifest::Unit &unit) {
  return keepsMasterHalves(m, unit) ? dtypeBytes(unit.paramType) : 0;
}

bool gathersInPlace(const Manifest::Unit &unit, const Topology &topology,
                    Offload offload) {
  return unit.gatherInPlace && !keepsInFile(unit.sendsMasters(), offload) &&
         !(unit.sharded && topology.groupsLeaveMachine());
}

bool gradientsAreTheirSum(const Manifest &m, int ranks, int64_t accumulate) {
  auto f32 = [](const Manifest::Unit &unit) {
    return unit.reduceType == SHX_F32;
  };
  return ranks == 1 && (accumulate == 1 || m.unshardedAccumulation) &&
         std::all_of(m.units.begin(), m.units.end(), f32);
}

bool gradientsLieAmongActivations(const Manifest &m, int ranks,
                                  int64_t accumulate) {
  auto placed = [](const Manifest::Unit &unit) {
    return unit.length == 0 || unit.gradPlaceBytes >= 0;
  };
  return !m.cuda() && accumulate == 1 &&
         gradientsAreTheirSum(m, ranks, accumulate) &&
         std::all_of(m.units.begin(), m.units.end(), placed);
}

bool sliceLiesAmongActivations(const Manifest &m, const Manifest::Unit &unit,
                               const Topology &topology, int64_t accumulate) {
  return !m.cuda() && accumulate == 1 && unit.sharded &&
         topology.groupSize() > 1 && topology.replicas == 1 &&
         unit.slicePlaceBytes >= 0;
}

int64_t privateBytes(const Manifest &m, int ranks, int64_t accumulate) {
  int64_t bytes = m.privateSpace.bytes;
  if (gradientsLieAmongActivations(m, ranks, accumulate))
    for (const Manifest::Unit &unit : m.units)
      if (unit.length > 0)
        bytes = std::max(bytes, unit.gradPlaceBytes + unit.gradientBytes());
  return bytes;
}

std::vector<MemoryItem> planMemory(const Manifest &m, const Topology &topology,
                                   int threadsPerRank, int64_t accumulate,
                                   Offload offload) {
  if (m.cuda())
    return planDeviceMemory(m, topology, accumulate, offload);
  OwnedBytes sum;
  int64_t reduced = 0, part = 0;
  bool slices = false; // among activations
  for (const Manifest::Unit &unit : m.units) {
    Interval slice = topology.owned(unit.sharded, unit.length, 0);
    int64_t owned = slice.size();
    bool inPlace = gathersInPlace(unit, topology, offload);
    Interval last{std::max(slice.begin, slice.end - kFilePartElements),
                  slice.end};
    part = std::max({part, offloadedOf(m, unit, last, inPlace, offload),
                     std::min(offloadedFrozen(unit, topology, inPlace, offload),
                              kFilePartBytes)});
    OwnedBytes bytes = ownedBytes(m, unit, topology, offload);
    sum.masters += bytes.masters;
    sum.params += bytes.params;
    sum.moments += bytes.moments;
    sum.frozen += bytes.frozen;
    // Replicated, the sum stands once on the machine for each part.
    int64_t alike = std::max(topology.ranksHere / topology.tensor, 1);
    if (sliceLiesAmongActivations(m, unit, topology, accumulate))
      slices = true;
    else
      reduced += unit.sharded ? owned * 4 : unit.length * 4 / alike;
  }
  if (m.hasMatrices() && offload == Offload::None)
    sum.moments = largestMoments(m, topology);
  int64_t gather = copiedBytes(m, topology, offload, /*sharded=*/true) /
                       topology.groupHere() +
                   copiedBytes(m, topology, offload, /*sharded=*/false);
  int64_t inputs = 0;
  for (const Manifest::Input &input : m.inputs)
    inputs += input.bytes();
  bool among =
      gradientsLieAmongActivations(m, topology.dataRanks(), accumulate);
  if (among)
    reduced = 0;
  MuonPlan muon = planMuon(m, topology.groupHere());
  return {{"master weights", sum.masters},
          {kLowPrecision, sum.params},
          {"frozen weights", sum.frozen},
          {"optimizer state", sum.moments},
          {"offload buffers", part},
          {"reduced gradients", reduced},
          {"gathered parameters", gather},
          {"full gradients",
           gradientsAreTheirSum(m, topology.dataRanks(), accumulate)
               ? 0
               : m.gradientSpace.bytes},
          {among || slices ? "activations and gradients"
                           : "activations and workspaces",
           privateBytes(m, topology.dataRanks(), accumulate)},
          {"Muon's directions", muon.windowBytes / topology.groupHere()},
          {"Muon's workspace", muon.workspaceBytes},
          {"axes of the mesh", m.meshBytes},
          {"inputs", inputs},
          {"thread scratch", m.scratchPerThreadBytes * threadsPerRank},
          {"process", processBytes(topology, threadsPerRank)}};
}

std::vector<MemoryItem> planHeadroom(const Manifest &m,
                                     const Topology &topology) {
  if (!m.cuda())
    return {};
  int64_t communicators = 0;
  if (topology.groupSize() > 1)
    communicators += 2; // gathers and reductions
  if (topology.replicas > 1)
    communicators += 2; // of all ranks, and of those who own the same
  if (topology.tensor > 1)
    communicators += topology.replicas > 1 ? 2 : 3; // …and the axis's
  if (topology.context > 1)
    ++communicators;
  int64_t nodes = 0;
  for (const Manifest::Unit &unit : m.units)
    nodes += kGraphNodesOfParameter * static_cast<int64_t>(unit.params.size());
  return {{"communicators' buffers",
           communicators * kQueueBlocks * kBytesOfCommunicatorBlock},
          {"code of kernels and libraries", kCodeBytes},
          {"graphs", kGraphBytes + nodes * kGraphNodeBytes},
          {"kernels' local memory", kLocalBytes}};
}

int64_t offloadedBytes(const Manifest &m, const Topology &topology,
                       Offload offload) {
  if (m.cuda())
    return planDevice(m, topology, 1, offload).hostBytes + m.hostSpace.bytes;
  int64_t bytes = 0;
  for (const Manifest::Unit &unit : m.units) {
    bool inPlace = gathersInPlace(unit, topology, offload);
    Interval owned = topology.owned(unit.sharded, unit.length, 0);
    bytes += offloadedOf(m, unit, owned, inPlace, offload) +
             offloadedFrozen(unit, topology, inPlace, offload);
  }
  return bytes;
}

int64_t totalBytes(const std::vector<MemoryItem> &items) {
  int64_t total = 0;
  for (const MemoryItem &item : items)
    total += item.bytes;
  return total;
}

} // namespace shardonnx
