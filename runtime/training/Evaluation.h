// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loss of --eval-data: every sample counts once, whatever the number of
// ranks.

#ifndef SHARDONNX_RUNTIME_EVALUATION_H
#define SHARDONNX_RUNTIME_EVALUATION_H

#include "../core/Engine.h"
#include "../data/DataSource.h"
#include <functional>
#include <memory>

namespace shardonnx::rt {

class Evaluation {
public:
  /// Looks at the ids and labels of all samples, each rank at its share, and
  /// fails where a run would at its first evaluation, which may be its end.
  Evaluation(Engine &engine, std::unique_ptr<DataSource> data, uint64_t seed);
  /// On every rank, no step outstanding.
  double loss();
  DataSource &source() { return *data; }

private:
  /// The sample of a microbatch's row.
  using SampleAt = std::function<int64_t(int64_t microbatch, int64_t row)>;

  void check();
  void evaluate(int64_t microbatch, const SampleAt &sampleAt);
  double lossOfLabels();
  double lossOfMicrobatches();
  Engine::Evaluation sumOver(int64_t microbatches, double each,
                             const SampleAt &sampleAt);

  Engine &engine;
  const Manifest &manifest;
  std::unique_ptr<DataSource> data;
  uint64_t seed;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_EVALUATION_H
