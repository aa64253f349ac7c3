// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the training loop asks of a device: memory for one rank's part of the
// model, the functions of a step, and a few numbers. The CPU's and CUDA's
// engines implement it; which one is linked decides where a program trains.

#ifndef SHARDONNX_RUNTIME_ENGINE_H
#define SHARDONNX_RUNTIME_ENGINE_H

#include "../comm/Control.h"
#include "../comm/Exchange.h"
#include "../comm/Rendezvous.h"
#include "Options.h"
#include "Program.h"
#include "Trace.h"
#include "TrainState.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <array>
#include <functional>
#include <memory>
#include <optional>

namespace shardonnx::rt {

using Scalars = std::array<float, SHX_NUM_SCALARS>; // by ShxScalar

/// What a step came to, over all ranks. A device may run ahead of its results.
struct StepResult {
  double loss = 0;     // the sum, not yet scaled by SHX_LOSS_SCALE
  double gradNorm = 0; // before clipping, without the loss scale
  double seconds = 0;  // of the step, on the device
  bool stop = false;   // a rank was asked to end the run (Control::askToStop)
  /// With --offload: what its update moved in and out, and how long that took.
  int64_t offloadBytes = 0;
  double offloadSeconds = 0;
};

/// The largest rank's.
struct MemoryUse {
  int64_t planned = 0, measured = 0; // bytes
  /// A GPU's context, the code and libraries loaded into it and what other
  /// programs have of the GPU: all that no plan can know.
  std::optional<int64_t> context = {};
};

/// Of what the ranks of this machine have written into their blocks.
MemoryUse largestUse(Control &control);

/// What the device does at best, measured now.
struct Peaks {
  double gflops = 0;    // of a product at the program's dtype
  double gigabytes = 0; // a second, of a + s·b over more than the caches hold
  int threads = 1;
};

class Engine {
public:
  explicit Engine(const Manifest &manifest) : manifest(manifest) {}
  virtual ~Engine() = default;
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const Manifest &manifest;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Ranks of a context and a tensor group see the same samples: this rank's
  /// place among those groups, how many there are, and of how many ranks each.
  int sampleRank() const { return rank() / together(); }
  int sampleRanks() const { return ranks() / together(); }
  int together() const { return static_cast<int>(manifest.mesh.together()); }
  /// Which part of the split parameters it has, of how many.
  int tensorRank() const { return rank() % tensor(); }
  int tensor() const { return static_cast<int>(manifest.mesh.tensor()); }

  // ---- The model. A unit has a trainable section (f32 masters) and a frozen
  // one (kept in param_dtype).

  /// The interval of a section that this rank owns.
  virtual Interval owned(size_t unit, bool trainable) const = 0;
  /// Sets elements [begin, begin + count) of the array's section (of scales,
  /// its blocks); they are owned.
  virtual void write(size_t unit, StateArray array, int64_t begin,
                     const float *values, int64_t count) = 0;
  /// The same as it is stored: packed weights, and moments in int8, which
  /// write() does not encode.
  virtual void writeStored(size_t unit, StateArray array, int64_t begin,
                           const uint8_t *bytes, int64_t count) = 0;
  /// Elements [begin, begin + count) of the last step's reduced gradients,
  /// which have the loss scale; they are owned, and no step is outstanding.
  virtual void readReduced(size_t unit, int64_t begin, float *values,
                           int64_t count) = 0;
  /// Which parameters are not decayed, by name.
  virtual void
  setDecay(const std::function<bool(const std::string &)> &noDecay) = 0;

  // ---- A run: start, then steps, then finish. Every rank calls the same in
  // the same order.
  virtual void start() = 0;
  /// Host memory for the next microbatch's inputs, by graph input.
  virtual uint8_t *const *inputs() = 0;
  virtual void beginStep(const Scalars &scalars) = 0;
  /// Of the step's, the first or the last one.
  virtual void microbatch(bool first, bool last) = 0;
  virtual void update() = 0;
  virtual void endStep() = 0;
  /// The oldest step's result that was not yet taken, if it is there; with
  /// `wait`, and a step outstanding, it will be.
  virtual std::optional<StepResult> result(bool wait) = 0;
  /// Steps that may be outstanding before the loop waits for the first.
  virtual int stepsAhead() const { return 0; }

  /// Forward alone; inputs as for a microbatch, no step outstanding.
  virtual void evalMicrobatch() = 0;
  struct Evaluation {
    double loss = 0, count = 0;
  };
  /// The sum over the eval microbatches since the last call, and over ranks;
  /// each rank gives its count, and one that gives none has no part in it.
  virtual Evaluation evaluation(double count) = 0;

  virtual MemoryUse memory(int64_t heldByHost, bool last) = 0;
  /// The device's dense peak at the program's dtype, FLOP/s, if it is known.
  virtual std::optional<double> peakFlops() const { return std::nullopt; }
  /// Before the first step; nothing where it is not measured.
  virtual std::optional<Peaks> measurePeaks() { return std::nullopt; }
  virtual void finish() = 0;

  // ---- Saving.

  /// What snapshot() was called at, between steps or before the
  /// start, is what read() gives, on another thread, until a unit's optimizer
  /// runs; before that the engine calls what setBeforeUpdate was given.
  virtual void snapshot() {}
  using Sink = std::function<void(const uint8_t *bytes, int64_t count)>;
  /// Elements of an array that this rank owns, piece by piece, as they are
  /// stored.
  virtual void read(size_t unit, StateArray array, const Interval &interval,
                    const Sink &sink) = 0;
  void setBeforeUpdate(std::function<void(size_t unit)> call) {
    beforeUpdate = std::move(call);
  }

  /// Around the steps that are traced: after the second call the trace has
  /// everything of them.
  virtual void beginTrace() = 0;
  virtual void endTrace() = 0;
  /// The same of those so far, before something that is no part of them, from
  /// which beginTrace() goes on.
  virtual void pauseTrace() { endTrace(); }

protected:
  std::function<void(size_t unit)> beforeUpdate; // may be empty
};

/// What is known once the ranks of this machine have met.
struct EngineSetup {
  const Program &program;
  const Manifest &manifest;
  const Options &options;
  const RankInfo &info;
  const Topology &topology;
  const Group &group; // group.memory begins with the control block
  Control &control;
  Exchange &exchange;
  Trace *trace = nullptr; // outlives the engine; null: none
};

class Platform {
public:
  virtual ~Platform() = default;
  /// Throws where this machine, or what the environment asks of it, will not
  /// do: before any rank starts.
  virtual void check() {}
  /// Once per rank, before it meets the others.
  virtual void prepare(const RankInfo &info, char **argv) = 0;
  /// Of the file that the ranks of a machine share, the control block included.
  virtual int64_t sharedBytes(const Manifest &manifest, const Options &options,
                              const Topology &topology) = 0;
  virtual std::unique_ptr<Engine> makeEngine(const EngineSetup &setup) = 0;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ENGINE_H
