// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one rank of the CPU owns: its slice of each unit's masters, moments and
// reduced gradients, and where the gathered parameters and full gradients lie.

#ifndef SHARDONNX_RUNTIME_CPU_STATE_H
#define SHARDONNX_RUNTIME_CPU_STATE_H

#include "../comm/SharedMemory.h"
#include "../core/Pieces.h"
#include <vector>

namespace shardonnx::rt {

struct UnitState {
  const Manifest::Unit *unit = nullptr;
  bool inPlace = false;      // the masters are the gathered unit
  Interval owned;            // of the trainable section; replicated: all of it
  Interval frozenOwned;      // of the frozen section
  Interval reducePart;       // of the trainable section, summed by this rank
  float *master = nullptr;   // [owned]
  float *moments[2] = {};    // [owned] each, null when not needed
  float *reduced = nullptr;  // [owned]
  uint8_t *frozen = nullptr; // [frozenOwned], null when in place
  uint8_t *gathered = nullptr;      // the whole unit in param_dtype
  std::vector<uint8_t *> gradients; // [rank] the whole unit in reduce_dtype
  std::vector<Piece> pieces;
};

// Where everything lies in the file that the ranks share. All ranks compute
// the same from the manifest.
struct SharedPlan {
  int64_t control = 0, gather = 0, reduced = 0, gradients = 0;  // offsets
  int64_t gatherBytes = 0, reducedBytes = 0, gradientBytes = 0; // one rank's
  int64_t total = 0;
  // Where each sharded unit begins in the gather part.
  std::vector<int64_t> unitOffsets;
  // One rank and one microbatch: the gradients are their own sum.
  bool gradientsInPlace = false;
};

struct MemoryOptions {
  bool debug = false;     // poison what is freed, copy instead of in place
  int64_t accumulate = 1; // microbatches of a step
};

bool gathersInPlace(const Manifest &manifest, const Manifest::Unit &unit,
                    const MemoryOptions &options);
SharedPlan planShared(const Manifest &manifest, int ranks,
                      const MemoryOptions &options);

// All the memory of a rank, and the units in it.
class State {
public:
  // `memory` is the shared file, or -1 when there is one rank.
  State(const Manifest &manifest, int rank, int ranks, int memory,
        const MemoryOptions &options);

  const Manifest &manifest;
  const SharedPlan plan;
  const bool debug;
  uint8_t *privateBase() const { return privateMemory.data(); }
  std::vector<UnitState> units;
  std::vector<uint8_t *> paramPointers, gradPointers; // for generated code

private:
  void placeUnit(size_t index, int rank, int ranks,
                 const MemoryOptions &options);
  void carveOwned(int ranks);

  Mapping privateMemory, ownedMemory, gatherMemory, privateGather,
      reducedMemory;
  std::vector<Mapping> gradientMemory;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_STATE_H
