// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training on this machine's cores: calls run where they are made, and a step's
// result is there when it ends.

#ifndef SHARDONNX_RUNTIME_CPU_ENGINE_H
#define SHARDONNX_RUNTIME_CPU_ENGINE_H

#include "../core/Engine.h"
#include "Context.h"
#include "Muon.h"
#include "Network.h"
#include "State.h"
#include "WaitPolicy.h"

namespace shardonnx::rt {

class CpuEngine : public Engine {
public:
  explicit CpuEngine(const EngineSetup &setup);

  int rank() const override { return control.rank(); }
  int ranks() const override { return control.ranks(); }
  Interval owned(size_t unit, bool trainable) const override;
  void write(size_t unit, StateArray array, int64_t begin, const float *values,
             int64_t count) override;
  void writeStored(size_t unit, StateArray array, int64_t begin,
                   const uint8_t *bytes, int64_t count) override;
  void readReduced(size_t unit, int64_t begin, float *values,
                   int64_t count) override;
  void read(size_t unit, StateArray array, const Interval &interval,
            const Sink &sink) override;
  void
  setDecay(const std::function<bool(const std::string &)> &noDecay) override;
  void start() override;
  uint8_t *const *inputs() override { return inputPointers.data(); }
  void beginStep(const Scalars &scalars) override;
  void microbatch(bool first, bool last) override;
  void update() override;
  void endStep() override;
  std::optional<StepResult> result(bool wait) override;
  void evalMicrobatch() override;
  Evaluation evaluation(double count) override;
  MemoryUse memory(int64_t heldByHost, bool last) override;
  std::optional<Peaks> measurePeaks() override;
  void finish() override;
  void beginTrace() override;
  void endTrace() override;

private:
  void allocateInputs();
  double ownLoss() const;
  void adaptWaiting();
  void poisonPrivate();

  const Program &program;
  Control &control;
  State state;
  Routes routes;
  std::unique_ptr<Network> network; // where there are several machines
  Communicator communicator;
  AxisGroup axis;
  Context context;
  std::optional<Muon> muon;
  Mapping inputMemory;
  std::vector<uint8_t *> inputPointers;
  int64_t plannedBytes;
  WaitPolicy waits;
  double stepBegin = 0, lossSum = 0, nextMeasurement = 0;
  bool stop = false;
  std::optional<StepResult> stepResult;
};

class CpuPlatform : public Platform {
public:
  void check() override;
  void prepare(const RankInfo &info, char **argv) override;
  int64_t sharedBytes(const Manifest &manifest, const Options &options,
                      const Topology &topology) override;
  std::unique_ptr<Engine> makeEngine(const EngineSetup &setup) override;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_ENGINE_H
