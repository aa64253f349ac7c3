// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step over time: what each queue does, and what lives in a rank's memory
// meanwhile. Puts the manifest's order of ops and lifetimes of buffers on the
// clock of predictSchedule. No MLIR here.

#ifndef SHARDONNX_COST_STEPTIMELINE_H
#define SHARDONNX_COST_STEPTIMELINE_H

#include "shardonnx/Cost/Exposure.h"

#include <string>
#include <vector>

namespace shardonnx {

/// Work of one unit in one phase, a wait, or a collective.
struct TimelineSpan {
  Span span;
  // Of work: forward, recompute, backward or update. Of what is sent along an
  // axis, which.
  std::string phase;
};

/// What lives in a space between two times.
struct TimelineBuffer {
  std::string name; // of a unit, in the other spaces
  std::string kind;
  int64_t bytes = 0;
  double begin = 0, end = 0;
};

struct StepTimeline {
  std::vector<FunctionSchedule> functions;
  std::vector<TimelineSpan> spans;
  std::vector<TimelineBuffer> buffers;  // of the private space
  std::vector<TimelineBuffer> gathered; // units: as large as they are gathered
  std::vector<TimelineBuffer> gradients;
  std::vector<TimelineBuffer> placed; // reduced ones, in the private space
  double end = 0;                     // of the step
  bool hasOps = true; // else the executable is of an older compiler
};

/// Of a step with one microbatch, after another one.
StepTimeline predictTimeline(const Manifest &manifest, const Device &device,
                             const Topology &topology,
                             Offload offload = Offload::None);

} // namespace shardonnx

#endif // SHARDONNX_COST_STEPTIMELINE_H
