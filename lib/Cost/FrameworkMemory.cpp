// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FrameworkMemory.h. The largest of two moments: when the loss has its
// logits, and when backward begins with the last block.

#include "shardonnx/Cost/FrameworkMemory.h"

#include <algorithm>

namespace shardonnx {
namespace {

// Of a block, under the recomputation: what is kept, and what comes back for
// its backward.
struct BlockBytes {
  double kept = 0, again = 0;
};

BlockBytes bytesOf(const EagerTraffic::Unit &unit,
                   const Execution::Memory &memory, const Recompute &recompute,
                   int64_t number) {
  double all = unit.kept + memory.norm * unit.normed +
               (memory.repeatsKeys ? unit.repeated : 0);
  switch (recompute.kind) {
  case RecomputeKind::Block:
    return {unit.input, all};
  case RecomputeKind::Selective:
    return {unit.input + unit.selected, all - unit.selected};
  case RecomputeKind::Every:
    if (number % std::max<int64_t>(recompute.number, 1) == 0)
      return {unit.input, all};
    return {all, 0};
  default:
    return {all, 0};
  }
}

} // namespace

std::vector<MemoryItem> frameworkMemory(const Manifest &m,
                                        const Topology &topology,
                                        const Execution::Memory &memory,
                                        const EagerTraffic &eager,
                                        const Recompute &recompute) {
  auto group = double(topology.groupSize());
  double owned = 0, root = 0, rootGradient = 0, largest = 0, blocks = 0;
  double largestGradient = 0, kept = 0, again = 0;
  int64_t number = 0;
  for (size_t i = 0; i < m.units.size(); ++i) {
    const Manifest::Unit &unit = m.units[i];
    const EagerTraffic::Unit &work = eager.units[i];
    owned += double(unit.length) / (unit.sharded ? group : 1);
    BlockBytes bytes = bytesOf(work, memory, recompute, number);
    if (!work.block) {
      // The framework's root has what no block has, until the step ends.
      root += double(unit.gatheredBytes());
      rootGradient += double(unit.gatheredBytes());
      kept += work.kept + memory.norm * work.normed;
      continue;
    }
    ++number;
    kept += bytes.kept;
    again = std::max(again, bytes.again);
    largest = std::max(largest, double(unit.gatheredBytes()));
    largestGradient = std::max(largestGradient, double(unit.gradientBytes()));
    blocks += double(unit.gatheredBytes());
  }
  constexpr double kMaster = 4, kAdamW = 8;
  constexpr double kAtOnce = 2; // blocks that are gathered, or reduced
  bool shards = group > 1;
  double gathered =
      !shards ? 0
      : m.strategy == Strategy::FullShard || m.strategy == Strategy::HybridShard
          ? root + kAtOnce * largest
          : root + blocks;
  double gradients = shards ? rootGradient + kAtOnce * largestGradient : 0;
  double loss = memory.logit * eager.logits;
  bool inLoss = loss > again + gradients;
  auto item = [](const char *name, double bytes) {
    return MemoryItem{name, int64_t(bytes)};
  };
  return {item("master weights", kMaster * owned),
          item("optimizer state", kAdamW * owned),
          item("reduced gradients", (memory.state - kMaster - kAdamW) * owned),
          item("gathered parameters", gathered),
          item("full gradients", inLoss ? 0 : gradients),
          item("logits", inLoss ? loss : 0),
          item("activations", kept + (inLoss ? 0 : again))};
}

} // namespace shardonnx
