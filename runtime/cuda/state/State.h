// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one rank owns on its GPU: its slice of each unit's masters, moments and
// reduced gradients, and where the gathered parameters and full gradients lie.

#ifndef SHARDONNX_RUNTIME_CUDA_STATE_H
#define SHARDONNX_RUNTIME_CUDA_STATE_H

#include "../../core/Carver.h"
#include "../../core/OwnedUnit.h"
#include "../driver/Memory.h"
#include "shardonnx/runtime/DevicePlan.h"

namespace shardonnx::rt::cuda {

/// Pointers are device addresses. The gathered parameters and the gradients of
/// a sharded unit have room for ranks · slice elements (DevicePlan.h); those
/// behind `length` are nobody's, and may hold anything.
struct UnitState : OwnedUnit {
  /// The only owner: what the update writes, and the frozen weights, are the
  /// gathered unit. Else gathers read whole slices of them.
  bool inPlace = false;
  int64_t slice = 0;       // elements of a rank's part, padded
  int64_t frozenSlice = 0; // …of the frozen section
  /// With --offload=params: [owned], what gathers read, in param_dtype. Masters
  /// and frozen weights then lie in host memory as this does, with any
  /// --offload the moments do.
  uint8_t *hostParams = nullptr;
  /// Between forward and backward, where a smaller group gathers the unit
  /// again: its ranks, the parts of this one, and where they are kept.
  int group = 0; // 0: none
  int64_t groupSlice = 0, groupFrozenSlice = 0;
  Interval groupOwned, groupFrozenOwned;
  uint8_t *resharded = nullptr, *reshardedFrozen = nullptr;
  uint8_t *gathered = nullptr;  // the whole unit in param_dtype
  uint8_t *gradients = nullptr; // the whole unit in reduce_dtype
  /// The bytes that these two take in their spaces, the padding with them: two
  /// units that share some are never in use at once.
  Interval gatherBytes, gradientBytes;

  /// What a gather reads of the trainable section: [slice], in param_dtype.
  const uint8_t *sent() const { return params ? params : master; }
};

class State {
public:
  /// `symmetric` allocates what collectives touch.
  State(const Manifest &manifest, int rank, const Topology &topology,
        int64_t accumulate, Allocator &symmetric,
        Offload offload = Offload::None);

  const Manifest &manifest;
  const int rank;
  const Topology topology;
  const Offload offload;
  const DevicePlan plan;
  std::vector<UnitState> units;
  std::vector<uint8_t *> paramPointers, gradPointers; // for generated code
  uint8_t *privateBase() const { return privateSpace.data(); }
  /// Of the unit that is being gathered.
  uint8_t *images() const { return imageSpace.data(); }
  /// The spaces that every function writes before it reads them.
  void fillWithNoise(CUstream stream) const;
  /// Whether --offload keeps this array in host memory.
  bool onHost(StateArray array) const;

private:
  void placeUnit(size_t index);
  void carveOwned(Allocator &symmetric);
  struct Carvers {
    Carver device, sent, host;
  };
  void carveUnit(UnitState &state, Carvers &memory);
  void carveWeights(UnitState &state, Carvers &memory);

  DeviceMemory privateSpace, gatherSpace, imageSpace, gradientSpace,
      ownedSlices, sentSlices;
  PinnedMemory hostSlices;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_STATE_H
