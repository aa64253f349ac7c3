// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where everything of a rank lies on its GPU, for any world size: the run
// allocates by it, and `shardonnx inspect` predicts with it.

#ifndef SHARDONNX_RUNTIME_DEVICEPLAN_H
#define SHARDONNX_RUNTIME_DEVICEPLAN_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/MuonPlan.h"
#include "shardonnx/runtime/Offload.h"
#include <vector>

namespace shardonnx {

// Every buffer of the device begins at a multiple of this many bytes.
constexpr int64_t kDeviceAlignmentBytes = 256;
// A microbatch's inputs on the device: what is read, and two that arrive.
constexpr int64_t kInputCopies = 3;
// Behind a microbatch's inputs, for cuDNN: the lengths of its documents, and
// where they begin in tensors whose tokens are so many elements apart, for as
// many different distances. Each has a column of 32-bit numbers.
constexpr int64_t kDocumentStrides = 15;
constexpr int64_t documentColumn(int64_t maxDocuments) {
  return alignTo(maxDocuments + 1, kDeviceAlignmentBytes / 4);
}
constexpr int64_t documentTableBytes(int64_t maxDocuments) {
  return maxDocuments > 0
             ? (1 + kDocumentStrides) * documentColumn(maxDocuments) * 4
             : 0;
}
// A microbatch's inputs with what stands behind them.
int64_t deviceInputBytes(const Manifest &manifest);
// Thread blocks, each with a processor of its own, that a queue's collectives
// take of a GPU at most: enough for NVLink where the switch adds, and for any
// network. With several ranks, products leave as many processors free.
constexpr int kQueueBlocks = 8;

// Collectives work in place on equal slices, so a sharded unit's buffers have
// room for ranks · slice elements, of which the first `length` are the unit's.
// The planned offsets are moved apart for it; what was disjoint remains so.
struct DevicePlan {
  struct Unit {
    int64_t slice = 0;       // elements of a rank's part of the trainable ones
    int64_t frozenSlice = 0; // …of the frozen ones
    // Ranks that gather the unit again for backward, and the parts that they
    // keep until then; 0: all that own it.
    int group = 0;
    // The only owner: what the update writes is the gathered unit.
    bool inPlace = false;
    int64_t groupSlice = 0, groupFrozenSlice = 0;
    Interval gather;    // bytes of the gather space, the padding included
    Interval gradients; // bytes of the gradient space, likewise
  };
  std::vector<Unit> units;
  int64_t gatherBytes = 0, gradientBytes = 0; // of the spaces
  // With --gather-dtype: of all ranks' images of the largest unit's slices.
  int64_t imageBytes = 0;
  // Of the owned slices; the largest rank's.
  int64_t masterBytes = 0, momentBytes = 0, reducedBytes = 0, frozenBytes = 0;
  int64_t paramBytes = 0; // the masters in param_dtype, where that is not f32
  int64_t reshardedBytes = 0; // what is kept between forward and backward
  // With --offload, in host memory: then the items above leave it out, and the
  // device has buffers for parts of it.
  int64_t hostBytes = 0;
  int64_t stagingBytes = 0, stagingElements = 0; // of all parts, of one
  // Of an element: the widest master, what else gathers read of it.
  int64_t stagingMasterBytes = 0, stagingCastBytes = 0;
  DeviceMuonPlan muon;
  bool gradientsInPlace = false; // a step's gradients are their own sum
};

DevicePlan planDevice(const Manifest &manifest, const Topology &topology,
                      int64_t accumulate, Offload offload = Offload::None);

// A reshard group that is no smaller than the unit's owners, or does not divide
// them, is all of them: the program runs at every world size.
int reshardGroup(const Manifest::Unit &unit, const Topology &topology);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_DEVICEPLAN_H
