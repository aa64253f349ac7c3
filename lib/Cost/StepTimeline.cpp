// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See StepTimeline.h.

#include "shardonnx/Cost/StepTimeline.h"

#include "shardonnx/Cost/AxisTime.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include <algorithm>
#include <optional>

namespace shardonnx {
namespace {

class TimelineBuilder {
public:
  TimelineBuilder(const Manifest &manifest, const Device &device,
                  const Topology &topology)
      : m(manifest), device(device), topology(topology),
        gathered(manifest.units.size()), gradients(manifest.units.size()) {}

  StepTimeline build(std::vector<FunctionSchedule> functions);

private:
  void addFunction(const FunctionSchedule &schedule);
  void addOps(const FunctionSchedule &schedule);
  void addWork(Span span, const std::string &phase);
  void followUnits(const FunctionSchedule &schedule);
  void end(std::optional<double> &since, size_t unit, double until,
           bool isGradient);
  void place(const std::string &op, size_t unit, double time);
  double secondsOf(const Manifest::Function &function, int64_t run) const;

  const Manifest &m;
  const Device &device;
  const Topology &topology;
  StepTimeline timeline;
  // Since when each unit's parameters, and gradients, have been there.
  std::vector<std::optional<double>> gathered, gradients;
};

} // namespace

double TimelineBuilder::secondsOf(const Manifest::Function &function,
                                  int64_t run) const {
  const Manifest::LaunchRun &one = function.launches[static_cast<size_t>(run)];
  const Manifest::Launch &launch = m.launches[one.launch];
  double seconds = launchSeconds(m, launch, one.phase, device);
  // What a start sends is another queue's.
  auto axis = axisLaunch(launch, m.mesh);
  return axis && axis->started ? seconds - linkSeconds(*axis, device) : seconds;
}

// Ops of one unit and phase that follow one another are one span.
void TimelineBuilder::addWork(Span span, const std::string &phase) {
  if (!timeline.spans.empty()) {
    TimelineSpan &last = timeline.spans.back();
    if (last.span.unit == span.unit && last.phase == phase &&
        last.span.end >= span.begin) {
      last.span.end = span.end;
      return;
    }
  }
  if (span.end > span.begin)
    timeline.spans.push_back({span, phase});
}

// The work between two collectives is given to its ops in proportion to what
// each would take by itself.
void TimelineBuilder::addOps(const FunctionSchedule &schedule) {
  const Manifest::Function &function = *schedule.function;
  std::vector<double> begins;
  size_t at = 0;
  for (const Span &segment : schedule.work) {
    size_t next = at;
    double sum = 0;
    for (; next < function.ops.size() && function.ops[next] >= 0; ++next)
      sum += secondsOf(function, function.ops[next]);
    double scale = sum > 0 ? (segment.end - segment.begin) / sum : 0;
    double time = segment.begin;
    for (; at < next; ++at) {
      const Manifest::LaunchRun &run =
          function.launches[static_cast<size_t>(function.ops[at])];
      begins.push_back(time);
      double seconds = scale * secondsOf(function, function.ops[at]);
      auto axis = axisLaunch(m.launches[run.launch], m.mesh);
      if (axis && !axis->started)
        addWork({Span::Axis, run.unit, time, time + seconds},
                spell(axis->axis));
      else
        addWork({Span::Work, run.unit, time, time + seconds},
                function.name == "update" ? "update" : spell(run.phase));
      time += seconds;
    }
    if (at < function.ops.size()) { // the collective behind the segment
      begins.push_back(segment.end);
      ++at;
    }
  }
  begins.resize(function.ops.size() + 1, schedule.end);
  for (const Manifest::TimedBuffer &buffer : function.buffers)
    timeline.buffers.push_back({buffer.name, spell(buffer.kind), buffer.bytes,
                                begins[buffer.begin], begins[buffer.end]});
}

void TimelineBuilder::end(std::optional<double> &since, size_t unit,
                          double until, bool isGradient) {
  const Manifest::Unit &of = m.units[unit];
  TimelineBuffer buffer{of.name,
                        isGradient ? "full gradients" : "gathered parameters",
                        isGradient ? of.gradientBytes() : of.gatheredBytes(),
                        since.value_or(0), until};
  (isGradient ? timeline.gradients : timeline.gathered)
      .push_back(std::move(buffer));
  since.reset();
}

// Reduced gradients for which backward leaves room: all of one rank's, or the
// slice that one of several owns.
void TimelineBuilder::place(const std::string &op, size_t unit, double time) {
  constexpr int64_t kMicrobatches = 1;
  const Manifest::Unit &of = m.units[unit];
  int64_t bytes = 0;
  if (op == "grad_acquire" &&
      gradientsLieAmongActivations(m, topology.dataRanks(), kMicrobatches))
    bytes = of.gradientBytes();
  if (op == "reduce_start" &&
      sliceLiesAmongActivations(m, of, topology, kMicrobatches))
    bytes = topology.owned(of.sharded, of.length, 0).size() *
            int64_t(sizeof(float));
  if (bytes > 0)
    timeline.placed.push_back({of.name, "reduced gradients", bytes, time, 0});
}

void TimelineBuilder::followUnits(const FunctionSchedule &schedule) {
  const std::vector<Manifest::Collective> &calls =
      schedule.function->collectives;
  for (size_t index = 0; index < calls.size(); ++index) {
    const Manifest::Collective &call = calls[index];
    if (call.unit < 0)
      continue;
    auto unit = static_cast<size_t>(call.unit);
    double time = schedule.work[index].end;
    place(call.op, unit, time);
    if (call.op == "gather_start" && !gathered[unit])
      gathered[unit] = time;
    else if (call.op == "gather_wait" && !gathered[unit])
      gathered[unit] = 0; // since before the step
    else if (call.op == "gather_free" || call.op == "gather_reshard")
      end(gathered[unit], unit, time, /*isGradient=*/false);
    else if (call.op == "grad_acquire")
      gradients[unit] = time;
    else if (call.op == "reduce_wait" && gradients[unit])
      end(gradients[unit], unit, time, /*isGradient=*/true);
  }
}

void TimelineBuilder::addFunction(const FunctionSchedule &schedule) {
  timeline.hasOps &= !schedule.function->ops.empty();
  addOps(schedule);
  if (schedule.function->ops.empty())
    for (const Span &span : schedule.work)
      addWork(span, "");
  for (const Span &span : schedule.others)
    if (span.end > span.begin)
      timeline.spans.push_back(
          {span, span.queue == Span::Work || span.queue == Span::Update
                     ? "update"
                 : span.queue == Span::Axis ? spell(span.axis)
                                            : ""});
  followUnits(schedule);
}

StepTimeline TimelineBuilder::build(std::vector<FunctionSchedule> functions) {
  timeline.functions = std::move(functions);
  for (const FunctionSchedule &function : timeline.functions)
    addFunction(function);
  if (!timeline.functions.empty())
    timeline.end = timeline.functions.back().end;
  for (TimelineBuffer &buffer : timeline.placed)
    buffer.end = timeline.end; // of the update
  for (size_t unit = 0; unit < m.units.size(); ++unit) {
    if (gathered[unit])
      end(gathered[unit], unit, timeline.end, /*isGradient=*/false);
    if (gradients[unit])
      end(gradients[unit], unit, timeline.end, /*isGradient=*/true);
  }
  return std::move(timeline);
}

StepTimeline predictTimeline(const Manifest &manifest, const Device &device,
                             const Topology &topology, Offload offload) {
  return TimelineBuilder(manifest, device, topology)
      .build(predictSchedule(manifest, device, topology, offload));
}

} // namespace shardonnx
