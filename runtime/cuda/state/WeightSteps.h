// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of weights that products read in 8 bits (nn.f8_weight_step): the
// update takes the largest absolute values of what it has written, each rank
// those of its slices, and one collective joins them. A maximum does not depend
// on an order, so every number of ranks has the same steps.

#ifndef SHARDONNX_RUNTIME_CUDA_WEIGHTSTEPS_H
#define SHARDONNX_RUNTIME_CUDA_WEIGHTSTEPS_H

#include "../launch/Context.h"
#include "State.h"

namespace shardonnx::rt::cuda {

class WeightSteps {
public:
  /// context.cells are there before the first call.
  explicit WeightSteps(Context &context);

  /// All masters and frozen weights are in place: takes all steps.
  void start();

  /// An update adds what it has written: `from` is a part of the unit's source,
  /// in device memory. Then it takes the steps, and casts what is gathered in
  /// 8 bits.
  void add(size_t unit, const Interval &part, const uint8_t *from);
  void finish();

  /// Of which the largest values are taken: what gathers read, or the masters
  /// where that are 8 bits.
  static const uint8_t *source(const UnitState &unit) {
    return unit.unit->inCodes() ? unit.master : unit.sent();
  }

private:
  /// What this rank owns of a weight, in the owned part of its section.
  struct Owned {
    Interval cut;
    int64_t step;
    bool trainable;
  };
  void join(const UnitState &unit, const Interval &cut, const uint8_t *from,
            uint32_t *to) const;
  void castUnit(size_t unit) const;
  void forget() const;
  uint32_t *kept() const { return reinterpret_cast<uint32_t *>(memory.data()); }
  uint32_t *largest() const { return kept() + count; }

  Context &context;
  const int64_t count; // of steps
  /// Bits of numbers: of frozen weights, and of all.
  DeviceMemory memory;
  std::vector<std::vector<Owned>> units;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_WEIGHTSTEPS_H
