// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Muon's matrices (--optimizer=muon) on GPUs. Momentum is owned by slices, as
// every state is; each owner receives the directions of its matrices, makes
// them orthogonal, and sends back what the others' slices have of them.

#ifndef SHARDONNX_RUNTIME_CUDA_MUON_H
#define SHARDONNX_RUNTIME_CUDA_MUON_H

#include "../driver/Memory.h"
#include "../launch/Context.h"
#include "shardonnx/runtime/MuonPlan.h"
#include <deque>
#include <vector>

namespace shardonnx::rt::cuda {

struct UnitState;

class Muon {
public:
  Muon(Context &context, AdjustLR adjust);

  /// Before products are timed: nothing of a step is there yet.
  void fillWithNoise(CUstream stream) const;
  /// Takes the gradients of the unit's matrices into their momentum, and sends
  /// the directions off.
  void start(size_t unit, const ShxDeviceKernel &kernel);
  /// Makes the matrices orthogonal that this rank owns, of the units that were
  /// started since too; then moves the unit's masters.
  void finish(size_t unit, const ShxDeviceKernel &kernel);

private:
  struct Owned {
    const MuonPlan::Matrix *matrix;
    uint8_t *at;      // of the whole
    uint8_t *mine;    // what this rank's slice has of it, there
    uint8_t *inSlice; // …and in the slice; null: it is the same
    int64_t bytes;    // of this part
    // Of a split matrix that is joined here: the parts of the ranks of the
    // tensor axis, the other ranks' as they come; null: it is not.
    uint8_t *parts = nullptr;
  };
  struct Unit {
    uint8_t *slice = nullptr; // directions of the owned slice, in bf16
    std::vector<Owned> owned;
    std::vector<Transfer> toOwners, fromOwners;
    bool isSplit = false; // there are split matrices, if not of this rank
    std::vector<Transfer> join, part; // along the tensor axis
  };
  void plan(size_t index, const DeviceMuonPlan &memory);
  void addOwned(Unit &unit, const UnitState &u, const MuonPlan::Matrix &matrix,
                uint8_t *&room);
  void planJoin(Unit &unit, Owned &owned, uint8_t *&room);
  void orthogonalizeJoined(const Owned &owned);
  uint8_t *directionsAt(size_t unit, const Interval &cut) const;
  void orthogonalizeStarted();
  uint8_t *joinedAt() const;

  Context &context;
  const MuonPlan owners;
  DeviceMemory window, workspace;
  std::vector<Unit> units;
  std::deque<size_t> started; // units whose matrices are not orthogonal yet
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_MUON_H
