// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one rank of the CPU owns: its slice of each unit's masters, moments and
// reduced gradients, and where the gathered parameters and full gradients lie.

#ifndef SHARDONNX_RUNTIME_CPU_STATE_H
#define SHARDONNX_RUNTIME_CPU_STATE_H

#include "../core/Carver.h"
#include "../core/OwnedUnit.h"
#include "../support/Mapping.h"
#include "OffloadFile.h"
#include "shardonnx/runtime/MuonPlan.h"
#include "shardonnx/runtime/Offload.h"
#include <vector>

namespace shardonnx::rt {

struct UnitState : OwnedUnit {
  /// What the update writes, and the frozen weights, are the gathered unit.
  bool inPlace = false;
  Interval reducePart; // of the trainable section, summed by this rank
  /// [replica] the reduced slice of the rank at this rank's place in each
  /// replica; empty where there is one replica, or the unit is replicated.
  std::vector<float *> replicaSums;
  uint8_t *gathered = nullptr; // the whole unit in param_dtype
  /// [unit->matrixLength], bf16, that the ranks of the group on this machine
  /// share: what Muon's matrices are to be moved along (MuonPlan.h).
  uint16_t *directions = nullptr;
  /// The same of the group of each rank of the tensor axis, by its place there.
  std::vector<uint16_t *> partDirections;
  /// The whole unit in reduce_dtype, of each rank whose gradients this one
  /// sums.
  std::vector<uint8_t *> gradients;
  /// Of the chunks of what this rank's part of the norm has of the unit, in
  /// order (ReduceKernels.h), where the reduction takes them; else empty.
  std::vector<double> squares;
};

/// Where everything lies in the file that the ranks share. All ranks compute
/// the same from the manifest.
struct SharedPlan {
  /// Offsets: of the first group twice, the first part of the tensor axis, and
  /// of the first rank three times.
  int64_t gather = 0, muon = 0, reduced = 0, replicaSums = 0, gradients = 0,
          mesh = 0;
  /// What one of them takes: multiples of a page.
  int64_t gatherBytes = 0, muonBytes = 0, reducedBytes = 0, replicaSumBytes = 0,
          gradientBytes = 0, meshBytes = 0;
  int64_t total = 0;
  /// Where each sharded unit begins in the gather part.
  std::vector<int64_t> unitOffsets;
  /// One rank and one reduction: the gradients are their own sum.
  bool gradientsInPlace = false;
  /// One microbatch a step too: they lie in the private space.
  bool gradientsAmongActivations = false;
};

struct MemoryOptions {
  bool debug = false;     // poison what is freed, copy instead of in place
  int64_t accumulate = 1; // microbatches of a step
  bool groupsLeaveMachine = false;
  Offload offload = Offload::None;
  std::string offloadDir;
};

bool gathersInPlace(const Manifest &manifest, const Manifest::Unit &unit,
                    const MemoryOptions &options);
SharedPlan planShared(const Manifest &manifest, const Topology &topology,
                      const MemoryOptions &options);

/// All the memory of a rank, and the units in it.
class State {
public:
  /// `memory` is the shared file, or -1 when there is one rank.
  State(const Manifest &manifest, const Topology &topology, int rank,
        int memory, const MemoryOptions &options);

  const Manifest &manifest;
  const Topology topology;
  const int rank;
  const SharedPlan plan;
  const MuonPlan muon;
  const bool debug;
  /// Which part of its owned slice a replica adds up.
  Interval replicaPart(const UnitState &unit, int replica) const;
  /// What a rank that sees the same samples gives to the others.
  uint8_t *meshBuffer(int other) const {
    return meshMemory[static_cast<size_t>(other - topology.firstTogether(rank))]
        .data();
  }
  uint8_t *privateBase() const { return privateMemory.data(); }
  uint8_t *muonWorkspace() const { return muonPrivate.data(); }
  /// Whether this rank makes the matrix orthogonal.
  bool ownsMatrix(const MuonPlan::Matrix &matrix) const {
    return matrix.isOwnedBy(muonOwner(), topology.tensorRank(rank));
  }
  /// This rank's place among those that share Muon's matrices.
  int muonOwner() const {
    return topology.groupRank(rank) % topology.groupHere();
  }
  /// What is offloaded of a unit's owned slice is about to be used, or has
  /// been: elements [begin, begin + kFilePartElements), or what there is of
  /// them.
  const bool offloads;
  void prefetch(size_t unit, int64_t begin) const;
  void evict(size_t unit, int64_t begin) const;
  void evictUnit(size_t unit) const;
  void evictAll() const { offloadFile.evict(offloadFile.data(), offloadBytes); }
  const OffloadFile &offloaded() const { return offloadFile; }
  /// Of an update, in both directions.
  int64_t bytesMoved() const;
  /// Maps what all ranks of the machine have written of the gathered units,
  /// whether this one will read it or not: a page counts for those that map it,
  /// and each rank is to have its share of rows that only one looks up.
  void mapGathered() const { gatherMemory.populate(); }
  std::vector<UnitState> units;
  std::vector<uint8_t *> paramPointers, gradPointers; // for generated code

private:
  void mapMemory(int memory, const MemoryOptions &options);
  void placeUnit(size_t index, const MemoryOptions &options);
  void carveOwned(const MemoryOptions &options);
  void carveUnit(UnitState &state, const MemoryOptions &options, Carver &owned,
                 Carver &reduced, Carver &file);
  void placeReplicaSums();

  Mapping privateMemory, ownedMemory, gatherMemory, privateGather,
      reducedMemory, muonPrivate;
  OffloadFile offloadFile;
  int64_t offloadBytes = 0;
  std::vector<Mapping> muonMemory;       // [rank of the tensor axis]
  std::vector<Mapping> gradientMemory;   // [rank]
  std::vector<Mapping> meshMemory;       // [rank that sees the same samples]
  std::vector<Mapping> replicaSumMemory; // [replica]
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_STATE_H
