// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much memory each rank of a program takes at a world size, by item: the
// number that `shardonnx inspect` predicts and that a run logs as peak_bytes.

#ifndef SHARDONNX_RUNTIME_MEMORYPLAN_H
#define SHARDONNX_RUNTIME_MEMORYPLAN_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/Offload.h"
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx {

struct MemoryItem {
  std::string name;
  int64_t bytes = 0; // this rank's share, where ranks share pages
};

// Whether a step's gradients need no buffer beside the reduced ones: nobody
// else's are added behind a reduction, neither of another rank nor of another
// microbatch.
bool gradientsAreTheirSum(const Manifest &manifest, int ranks,
                          int64_t accumulate);
// Whether they lie in the private space then, where backward has done with
// activations: on CPUs, with one microbatch a step.
bool gradientsLieAmongActivations(const Manifest &manifest, int ranks,
                                  int64_t accumulate);
// Whether the slice that one of several ranks owns of the unit's reduced
// gradients lies there: the others do not read it, and it need not outlast the
// update.
bool sliceLiesAmongActivations(const Manifest &manifest,
                               const Manifest::Unit &unit,
                               const Topology &topology, int64_t accumulate);
// Of the private space, with what it has of gradients.
int64_t privateBytes(const Manifest &manifest, int ranks, int64_t accumulate);

// Of an element of the unit, what the update writes beside the master for
// products to read; 0 in f32.
int64_t lowPrecisionBytes(const Manifest::Unit &unit);

// On CPUs: whether the gathered unit is what the ranks have updated, so that a
// gather copies nothing.
bool gathersInPlace(const Manifest::Unit &unit, const Topology &topology,
                    Offload offload = Offload::None);

// The largest rank's (rank 0 owns no less than any other).
std::vector<MemoryItem> planMemory(const Manifest &manifest,
                                   const Topology &topology, int threadsPerRank,
                                   int64_t accumulate = 1,
                                   Offload offload = Offload::None);
// What a GPU's rank takes beside the plan, after it: an estimate from above,
// which must be free when a run starts. Empty for CPUs.
std::vector<MemoryItem> planHeadroom(const Manifest &manifest,
                                     const Topology &topology);
// What lies outside of it with --offload: in pinned host memory (CUDA), in a
// file (CPU).
int64_t offloadedBytes(const Manifest &manifest, const Topology &topology,
                       Offload offload);
int64_t totalBytes(const std::vector<MemoryItem> &items);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_MEMORYPLAN_H
