// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The current microbatch: one buffer for each graph input, filled before each
// call of the program, and the count of the labels of a step.

#ifndef SHARDONNX_RUNTIME_BATCH_H
#define SHARDONNX_RUNTIME_BATCH_H

#include "../comm/SharedMemory.h"
#include "Data/DataSource.h"
#include "SampleOrder.h"
#include <vector>

namespace shardonnx::rt {

class Batch {
public:
  explicit Batch(const Manifest &manifest);

  uint8_t *const *inputs() const { return pointers.data(); }
  // Row b takes sample samples[b]; one of kNoSample has no labels that count
  // and repeats sample 0 otherwise.
  void fill(DataSource &data, const std::vector<int64_t> &samples);
  static constexpr int64_t kNoSample = -1;

private:
  void fillRow(DataSource &data, size_t input, int64_t row, int64_t sample);

  const Manifest &manifest;
  Mapping memory;
  std::vector<uint8_t *> pointers;
};

// What the summed loss of a step is divided by: the same on every rank, since
// each counts the labels of all.
double lossDenominator(DataSource &data, const Manifest &manifest,
                       const SampleOrder &order, int64_t step);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_BATCH_H
