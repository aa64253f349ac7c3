// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training on a GPU: calls enqueue their work and return; a step's result is
// read while the next step runs. docs/cuda.md tells how.

#ifndef SHARDONNX_RUNTIME_CUDA_ENGINE_H
#define SHARDONNX_RUNTIME_CUDA_ENGINE_H

#include "../core/Engine.h"
#include "attention/Attention.h"
#include "gemm/Gemm.h"
#include "io/Download.h"
#include "io/Inputs.h"
#include "io/Numbers.h"
#include "io/Upload.h"
#include "launch/Context.h"
#include "launch/Function.h"
#include "launch/UpdateBranch.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include "state/HostCopies.h"
#include "state/Muon.h"
#include "state/Staging.h"
#include "state/State.h"
#include "state/WeightSteps.h"
#include "trace/Tracer.h"

namespace shardonnx::rt::cuda {

/// What a program exports for a GPU, as values.
struct DeviceProgram {
  const ShxDeviceImage *images = nullptr;
  int32_t imageCount = 0;
  const uint8_t *constants = nullptr;
  uint64_t constantsSize = 0;
};

class CudaEngine : public Engine {
public:
  CudaEngine(const EngineSetup &setup, const DeviceProgram &code);
  ~CudaEngine() override;

  int rank() const override { return context.rank; }
  int ranks() const override { return context.ranks; }
  Interval owned(size_t unit, bool trainable) const override;
  void write(size_t unit, StateArray array, int64_t begin, const float *values,
             int64_t count) override;
  void writeStored(size_t unit, StateArray array, int64_t begin,
                   const uint8_t *bytes, int64_t count) override;
  void readReduced(size_t unit, int64_t begin, float *values,
                   int64_t count) override;
  void snapshot() override;
  void read(size_t unit, StateArray array, const Interval &interval,
            const Sink &sink) override;
  void
  setDecay(const std::function<bool(const std::string &)> &noDecay) override;
  void start() override;
  uint8_t *const *inputs() override { return batch->host(); }
  void beginStep(const Scalars &scalars) override;
  void microbatch(bool first, bool last) override;
  void update() override;
  void endStep() override;
  std::optional<StepResult> result(bool wait) override;
  int stepsAhead() const override { return Numbers::kAhead; }
  void evalMicrobatch() override;
  Evaluation evaluation(double count) override;
  MemoryUse memory(int64_t heldByHost, bool last) override;
  std::optional<double> peakFlops() const override;
  void finish() override;
  void beginTrace() override;
  void endTrace() override;
  void pauseTrace() override;

private:
  void writeHalves(const UnitState &unit, int64_t begin, const float *values,
                   int64_t count);
  void makeContext(const EngineSetup &setup);
  void allocate(const DeviceProgram &code);
  void takeSteps();
  void makeFunctions();
  void makeBranch();
  void issueMicrobatch(bool first, bool last);
  void issueUpdate(UpdatePart part);
  void beginOptimizers();
  void finishUpdate();
  /// That this run uses; those of an update, or none of them.
  std::vector<Function *> functions(bool ofUpdate = true) const;
  void prepare();
  void warmUp();
  void capture();
  void gatherFirst(bool kept);
  void gatherLosses();
  void drain();
  void sendBatch();
  void publishMemory();
  std::string waiting() const;
  /// SHARDONNX_VERBOSE=1: rank 0 tells how the start goes.
  bool isVerbose() const;
  void log(const char *phase);
  void logMemory() const;

  const Program &program;
  const Options &options;
  const Topology topology;
  Control &control;
  Exchange &exchange;
  double phaseBegin;
  Tracer tracer; // CUPTI sees the context when it is made
  Device device;
  const std::optional<int> numaNode; // that this rank is bound to
  const int64_t freeAtStart;         // bytes of the device
  int64_t contextBytes = 0;          // of the device, beside what is planned
  Stream compute, copy;
  Images programImages, runtimeImages;
  Context context;
  std::unique_ptr<Collectives> collectives;
  Gemm gemm;
  Attention attention;
  std::vector<MemoryItem> items; // what is planned
  DeviceMemory constants;
  std::unique_ptr<State> state;
  std::unique_ptr<Staging> staging;       // null: nothing is offloaded
  std::unique_ptr<HostCopies> hostCopies; // null: no activations on the host
  std::unique_ptr<Muon> muon;           // null: no matrices of --optimizer=muon
  std::unique_ptr<WeightSteps> steps;   // null: no weight is read in 8 bits
  std::unique_ptr<UpdateBranch> branch; // null: the update is by itself
  std::unique_ptr<Inputs> batch;
  std::unique_ptr<Numbers> numbers;
  std::unique_ptr<Upload> upload; // until the start
  std::unique_ptr<Download> download;
  /// With a branch the norm ends the step, and the optimizers run beside the
  /// next one's first microbatch, or by themselves where none follows at once.
  std::unique_ptr<Function> firstFunction, nextFunction, lastFunction,
      updateFunction, evalFunction, normFunction, besideFunction;
  bool updating = false; // the optimizers of the last step are still to run
  std::optional<bool> beganWithUpdate; // the traced steps did
  bool evaluating = false;
  bool evaluated = false; // since the last update
  bool toldOfDocuments = false;
};

class CudaPlatform : public Platform {
public:
  explicit CudaPlatform(const DeviceProgram &code) : code(code) {}
  void prepare(const RankInfo &info, char **argv) override;
  int64_t sharedBytes(const Manifest &manifest, const Options &options,
                      const Topology &topology) override;
  std::unique_ptr<Engine> makeEngine(const EngineSetup &setup) override;

private:
  const DeviceProgram code;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ENGINE_H
