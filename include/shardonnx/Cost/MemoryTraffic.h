// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a step moves through a rank's memory: the launches and library calls of
// the program, and what the runtime does with owned slices (casts, sums of
// gradients, norm, optimizer). Reads the manifest; no MLIR here.

#ifndef SHARDONNX_COST_MEMORYTRAFFIC_H
#define SHARDONNX_COST_MEMORYTRAFFIC_H

#include "shardonnx/Cost/Device.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"

#include <string>
#include <vector>

namespace shardonnx {

/// A sum over launches.
struct Moved {
  int64_t kernels = 0;                     // generated, or the runtime's own
  int64_t calls = 0;                       // of libraries
  double read = 0, written = 0, least = 0; // bytes
  double elements = 0;                     // of generated kernels' operands
  double seconds = 0;                      // predicted, one after the other

  double bytes() const { return read + written; }
  Moved &operator+=(const Moved &other);
};

/// Equal launches of a unit.
struct LaunchTraffic {
  std::string kind, name;
  Manifest::Phase phase = Manifest::Phase::Forward;
  bool update = false; // once a step, behind the microbatches
  int64_t count = 0;
  Moved moved; // all of them
};

struct UnitTraffic {
  std::string name; // empty: of no unit
  std::vector<LaunchTraffic> launches;
  Moved total() const;
  /// Do both launch the same, whatever their names are?
  bool alike(const UnitTraffic &other) const;
};

struct MemoryTraffic {
  std::vector<UnitTraffic> units; // as the manifest's; then what has none
  int64_t tokens = 0;             // of the step on this rank
  int64_t parameters = 0;         // trainable, that the rank owns
  Moved total() const;
  Moved ofKind(const std::string &kind) const;
  /// Of the units that the most others are alike to, the first: a layer.
  /// Its index, and how many there are.
  std::pair<size_t, int64_t> layer() const;
};

/// Whether the last sum of a unit's gradients takes their squares, so that the
/// norm needs no pass of its own: nothing is added to it afterwards, and on a
/// GPU each rank counts all that it has.
bool squaresWithSum(const Manifest &manifest, const Manifest::Unit &unit,
                    const Topology &topology, int64_t microbatches);

/// Of a step of `microbatches`.
MemoryTraffic memoryTraffic(const Manifest &manifest, const Device &device,
                            const Topology &topology, int64_t microbatches);

} // namespace shardonnx

#endif // SHARDONNX_COST_MEMORYTRAFFIC_H
