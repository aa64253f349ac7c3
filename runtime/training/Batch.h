// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of a microbatch, and the count of the labels of a step.

#ifndef SHARDONNX_RUNTIME_BATCH_H
#define SHARDONNX_RUNTIME_BATCH_H

#include "../core/SampleOrder.h"
#include "../data/DataSource.h"
#include <vector>

namespace shardonnx::rt {

constexpr int64_t kNoSample = -1;

/// What random numbers are drawn from: the run's seed, and how many samples the
/// run used before the first one of this microbatch.
struct RandomState {
  uint64_t seed = 0;
  int64_t firstSample = 0;
};

/// Fills one buffer for each graph input. Row b takes sample samples[b]; one of
/// kNoSample has no labels that count and repeats sample 0 otherwise.
void fillBatch(const Manifest &manifest, DataSource &data,
               const std::vector<int64_t> &samples, const RandomState &random,
               uint8_t *const *inputs);

/// What the summed loss of a step is divided by: the same on every rank, since
/// each counts the labels of all.
double lossDenominator(DataSource &data, const Manifest &manifest,
                       const SampleOrder &order, int64_t consumed);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_BATCH_H
