// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one rank owns on its GPU: its slice of each unit's masters, moments and
// reduced gradients, and where the gathered parameters and full gradients lie.

#ifndef SHARDONNX_RUNTIME_CUDA_STATE_H
#define SHARDONNX_RUNTIME_CUDA_STATE_H

#include "Memory.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <functional>
#include <vector>

namespace shardonnx::rt::cuda {

// A part of the owned slice that is parameters of one kind (the rest is
// padding, which nobody reads): the optimizer and the norm go over these.
struct Piece {
  int64_t begin = 0, length = 0; // in the owned slice
  bool decay = true;
};

// Device addresses. Collectives work in place on equal slices: the gathered
// parameters and the gradients of a sharded unit have room for ranks · slice
// elements, of which the first `length` are the unit's.
struct UnitState {
  const Manifest::Unit *unit = nullptr;
  int64_t slice = 0;         // elements of a rank's part, padded
  int64_t frozenSlice = 0;   // …of the frozen section
  Interval owned;            // of the trainable section; replicated: all of it
  Interval frozenOwned;      // of the frozen section; replicated: all of it
  Interval counted;          // of the trainable section: whose norm we sum
  float *master = nullptr;   // [owned]
  float *moments[2] = {};    // [owned] each, null when not needed
  float *reduced = nullptr;  // [owned]
  uint8_t *frozen = nullptr; // [frozenOwned], in param_dtype
  uint8_t *gathered = nullptr;  // the whole unit in param_dtype
  uint8_t *gradients = nullptr; // the whole unit in reduce_dtype
  // The bytes that these two take in their spaces, the padding with them: two
  // units that share some must not be in use at once.
  Interval gatherBytes, gradientBytes;
  std::vector<Piece> pieces;
};

// What the ranks' spaces are made of, for any world size: computed alike by
// the run and by the prediction.
struct StatePlan {
  int64_t gather = 0, gradients = 0; // bytes of the spaces
  int64_t masters = 0, moments = 0, reduced = 0, frozen = 0; // …of the slices
  bool gradientsInPlace = false; // the gradients are their own sum
  std::vector<Interval> gatherBytes, gradientBytes; // [unit]
};
StatePlan planState(const Manifest &manifest, int ranks, int64_t accumulate);

class State {
public:
  // `symmetric` allocates what collectives touch.
  State(const Manifest &manifest, int rank, int ranks, int64_t accumulate,
        Allocator &symmetric);

  const Manifest &manifest;
  const int rank, ranks;
  const StatePlan plan;
  std::vector<UnitState> units;
  std::vector<uint8_t *> paramPointers, gradPointers; // for generated code
  uint8_t *privateBase() const { return privateSpace.data(); }
  // By a parameter's name.
  void setDecay(const std::function<bool(const std::string &)> &noDecay);

private:
  void placeUnit(size_t index);
  void carveOwned();
  void addPieces(UnitState &state, const std::vector<bool> &decay);

  DeviceMemory privateSpace, gatherSpace, gradientSpace, owned;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_STATE_H
