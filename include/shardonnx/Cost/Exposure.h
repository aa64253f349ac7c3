// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long a step takes on a device, and how long it waits for collectives: a
// walk over the calls that every rank makes, with one queue for the work, one
// for gathers, one for reductions and one for what is exchanged along tensor
// and context axes, which share the links. Reads the
// manifest, so a model and its executable get the same answer. No MLIR here.

#ifndef SHARDONNX_COST_EXPOSURE_H
#define SHARDONNX_COST_EXPOSURE_H

#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/Execution.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/Offload.h"

#include <array>
#include <string>
#include <vector>

namespace shardonnx {

/// Seconds of a step.
struct UnitExposure {
  double gather = 0, reduce = 0; // of the unit's collectives
  double exposed = 0;            // that the work waits for them
};

struct StepExposure {
  std::vector<UnitExposure> units; // as the manifest's
  double work = 0;                 // products, kernels, the optimizer
  double exposed = 0;              // of all units, along axes, of copies
  double copies = 0; // of that, waiting for activations' host copies
  // The same by axis: what gathers and reductions of units take is that of the
  // shard axis, sums between replicas that of theirs.
  std::array<double, kMeshAxes> exposedByAxis = {};
  // Parts of the work, each alone.
  double products = 0, attention = 0, memory = 0, host = 0;
  double seconds() const { return work + exposed; }
};

/// How a step is played.
struct StepPlay {
  int64_t microbatches = 1;
  /// By this share one rank works longer than the others, who wait for it
  /// where they meet.
  double straggler = 0;
  /// Whose execution it is; null: Shardonnx's own. Eager ones need `eager`.
  const Execution *as = nullptr;
  const EagerTraffic *eager = nullptr;
  /// Whether they compute again what attention and every other product do not
  /// keep.
  bool selective = false;
  /// The executable's, with which an update is by itself; its copies are in
  /// offloadSeconds.
  Offload offload = Offload::None;
};

/// Of a rank, in steps of so many seconds: ranks that compute the same samples
/// share their tokens (samples, without a sequence).
double tokensPerSecond(const Manifest &manifest, int64_t microbatches,
                       double seconds);

/// Of a step behind another one: what that left open is awaited here.
StepExposure predictExposure(const Manifest &manifest, const Device &device,
                             const Topology &topology,
                             const StepPlay &play = {});

/// What one of the queues does, in seconds of the step. What is sent along an
/// axis at once, without a start and a wait, stands among the work.
struct Span {
  enum Queue { Work, Wait, Gather, Reduce, Axis, Offload, Reload, Update };
  Queue queue = Work;
  int64_t unit = -1; // that is worked for; of the others, the collective's
  double begin = 0, end = 0;
  MeshAxis axis = MeshAxis::Tensor; // of an Axis
};

/// Of one function: the work before each of its collectives, and behind the
/// last; then every wait and collective, and what collectives work themselves.
struct FunctionSchedule {
  const Manifest::Function *function = nullptr;
  double begin = 0, end = 0;
  std::vector<Span> work; // one more than there are collectives
  std::vector<Span> others;
};

/// A step with one microbatch behind another one, function by function. It
/// begins at 0.
std::vector<FunctionSchedule> predictSchedule(const Manifest &manifest,
                                              const Device &device,
                                              const Topology &topology,
                                              Offload offload = Offload::None);

/// What --offload adds to a step: the optimizer's slices come in and go back
/// behind it; the links to the host work in both directions at once.
double offloadSeconds(const Manifest &manifest, const Topology &ranks,
                      Offload offload, const Device &device);

/// What the optimizer reads and writes of a rank's slice of the unit: master
/// and moments twice, the gradient, what products read.
double optimizerBytes(const Manifest &manifest, const Manifest::Unit &unit,
                      const Topology &topology);
/// The steps that products scale trained weights of the unit by, and what all
/// owners together read for them.
struct WeightSteps {
  int64_t count = 0;
  double bytes = 0;
};
WeightSteps weightSteps(const Manifest::Unit &unit);

/// A kernel or a library call by itself; attention by the library that is
/// named.
double launchSeconds(const Manifest &manifest, const Manifest::Launch &launch,
                     Manifest::Phase phase, const Device &device,
                     const std::string &attention = kOwnAttention);

/// FLOPs a second of the program's attention; 0 where it has none.
double attentionReached(const Manifest &manifest, Manifest::Phase phase,
                        const Device &device);

} // namespace shardonnx

#endif // SHARDONNX_COST_EXPOSURE_H
