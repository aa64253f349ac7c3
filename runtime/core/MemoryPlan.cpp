// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pages that several ranks map count in equal parts, as the proportional set
// size does.

#include "shardonnx/runtime/MemoryPlan.h"
#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/Layout.h"
#include <algorithm>

namespace shardonnx {
namespace {

// What a process of this runtime takes before it trains: code, libraries,
// stacks, and what the GEMM library keeps for each thread.
constexpr int64_t kProcessBytes = 10 << 20;
constexpr int64_t kThreadBytes = 1 << 19;

// Everything is this rank's own: GPUs share nothing. The context, and the code
// that is loaded into it, are not in it.
std::vector<MemoryItem> planDeviceMemory(const Manifest &m, int ranks,
                                         int64_t accumulate) {
  DevicePlan plan = planDevice(m, ranks, accumulate);
  int64_t inputs = 0;
  for (const Manifest::Input &input : m.inputs)
    inputs += alignTo(input.bytes(), kDeviceAlignmentBytes);
  return {{"master weights", plan.masterBytes},
          {"frozen weights", plan.frozenBytes},
          {"optimizer state", plan.momentBytes},
          {"reduced gradients", plan.reducedBytes},
          {"gathered parameters", plan.gatherBytes},
          {"full gradients", plan.gradientBytes},
          {"activations and workspaces", m.privateSpace.bytes},
          {"inputs", kInputCopies * inputs},
          {"constants", m.constantBytes}};
}

} // namespace

bool gradientsAreTheirSum(const Manifest &m, int ranks, int64_t accumulate) {
  auto f32 = [](const Manifest::Unit &unit) {
    return unit.reduceType == SHX_F32;
  };
  return ranks == 1 && accumulate == 1 &&
         std::all_of(m.units.begin(), m.units.end(), f32);
}

std::vector<MemoryItem> planMemory(const Manifest &m, int ranks,
                                   int threadsPerRank, int64_t accumulate) {
  if (m.cuda())
    return planDeviceMemory(m, ranks, accumulate);
  int64_t masters = 0, moments = 0, reduced = 0, frozen = 0;
  bool sharded = false, replicated = false; // units that are not in place
  for (const Manifest::Unit &unit : m.units) {
    sharded |= unit.sharded && !unit.gatherInPlace;
    replicated |= !unit.sharded && !unit.gatherInPlace;
    int64_t owned = unit.sharded ? ownedInterval(unit.length, 0, ranks).size()
                                 : unit.length;
    int64_t owners = unit.sharded ? ranks : 1;
    masters += unit.gatherInPlace ? unit.length * 4 / owners : owned * 4;
    frozen += unit.frozenLength * dtypeBytes(unit.paramType) / owners;
    moments += owned * 4 * m.optimizerStates();
    // Replicated, the sum stands once on the machine.
    reduced += unit.sharded ? owned * 4 : unit.length * 4 / ranks;
  }
  int64_t gather = (sharded ? m.gatherSpace.bytes / ranks : 0) +
                   (replicated ? m.gatherSpace.bytes : 0);
  int64_t inputs = 0;
  for (const Manifest::Input &input : m.inputs)
    inputs += input.bytes();
  return {{"master weights", masters},
          {"frozen weights", frozen},
          {"optimizer state", moments},
          {"reduced gradients", reduced},
          {"gathered parameters", gather},
          {"full gradients", gradientsAreTheirSum(m, ranks, accumulate)
                                 ? 0
                                 : m.gradientSpace.bytes},
          {"activations and workspaces", m.privateSpace.bytes},
          {"inputs", inputs},
          {"thread scratch", m.scratchPerThreadBytes * threadsPerRank},
          {"process", kProcessBytes + kThreadBytes * threadsPerRank}};
}

int64_t totalBytes(const std::vector<MemoryItem> &items) {
  int64_t total = 0;
  for (const MemoryItem &item : items)
    total += item.bytes;
  return total;
}

} // namespace shardonnx
