// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step over time, and its kernels and products against what the device can
// do, as `shardonnx inspect --json` and --html have them.

#include "InspectReport.h"
#include "shardonnx/Cost/StepTimeline.h"

#include "llvm/ADT/STLExtras.h"

namespace shardonnx {
namespace {

using llvm::json::OStream;

constexpr double kMillis = 1e3;

// A page has to open at once: of the launches, those that take the longest.
constexpr size_t kLaunches = 512;

const char *wordOf(Span::Queue queue) {
  switch (queue) {
  case Span::Work:
    return "work";
  case Span::Wait:
    return "wait";
  case Span::Gather:
    return "gather";
  case Span::Reduce:
    return "reduce";
  case Span::Axis:
    return "axis";
  case Span::Offload:
    return "offload";
  case Span::Reload:
    return "reload";
  case Span::Update:
    return "update";
  }
  return "";
}

void writeTimes(OStream &json, double begin, double end) {
  json.attribute("begin_ms", begin * kMillis);
  json.attribute("end_ms", end * kMillis);
}

void writeSpan(OStream &json, const Manifest &m, const TimelineSpan &entry) {
  json.attribute("queue", wordOf(entry.span.queue));
  if (entry.span.unit >= 0)
    json.attribute("unit",
                   llvm::json::fixUTF8(m.units[size_t(entry.span.unit)].name));
  if (!entry.phase.empty())
    json.attribute("phase", entry.phase);
  writeTimes(json, entry.span.begin, entry.span.end);
}

// `share`: what a rank counts of a byte of the space.
void writeBuffers(OStream &json, const std::vector<TimelineBuffer> &buffers,
                  double share) {
  for (const TimelineBuffer &buffer : buffers) {
    auto bytes = static_cast<int64_t>(share * double(buffer.bytes));
    if (bytes > 0 && buffer.end > buffer.begin)
      json.object([&] {
        json.attribute("name", llvm::json::fixUTF8(buffer.name));
        json.attribute("kind", buffer.kind);
        json.attribute("bytes", bytes);
        writeTimes(json, buffer.begin, buffer.end);
      });
  }
}

// A rank counts the item for the whole space, whatever lives there.
double shareOf(const std::vector<MemoryItem> &items, llvm::StringRef name,
               const Manifest::Space &space) {
  for (const MemoryItem &item : items)
    if (item.name == name && space.bytes > 0)
      return double(item.bytes) / double(space.bytes);
  return 0;
}

struct CountedLaunch {
  const Manifest::Launch *launch;
  double count = 0, seconds = 0;
};

std::vector<CountedLaunch> launchesOf(const Manifest &m,
                                      const InspectView &view) {
  std::vector<CountedLaunch> list;
  for (const Manifest::Launch &launch : m.launches)
    list.push_back({&launch});
  for (const Manifest::Function &function : m.functions) {
    double times =
        function.name == "next_microbatch" ? double(view.accumulate - 1)
        : function.name == "first_microbatch" || function.name == "update" ? 1
                                                                           : 0;
    for (const Manifest::LaunchRun &run : function.launches) {
      double count = times * double(run.count);
      CountedLaunch &one = list[run.launch];
      one.count += count;
      one.seconds +=
          count * launchSeconds(m, *one.launch, run.phase, view.device);
    }
  }
  llvm::erase_if(list, [](const CountedLaunch &one) { return one.count == 0; });
  llvm::stable_sort(list, [](const CountedLaunch &a, const CountedLaunch &b) {
    return a.seconds > b.seconds;
  });
  return list;
}

} // namespace

void writeTimeline(OStream &json, const Manifest &m, const InspectView &view) {
  StepTimeline step =
      predictTimeline(m, view.device, view.topology, view.offload);
  std::vector<MemoryItem> items = planMemory(
      m, view.topology, view.threadsPerRank, view.accumulate, view.offload);
  json.attributeObject("timeline", [&] {
    json.attribute("device", view.device.name);
    json.attribute("step_ms", step.end * kMillis);
    json.attribute("whole", step.hasOps);
    json.attributeArray("functions", [&] {
      for (const FunctionSchedule &function : step.functions)
        json.object([&] {
          json.attribute("name", function.function->name);
          writeTimes(json, function.begin, function.end);
        });
    });
    json.attributeArray("spans", [&] {
      for (const TimelineSpan &span : step.spans)
        json.object([&] { writeSpan(json, m, span); });
    });
    json.attributeArray("buffers", [&] {
      writeBuffers(json, step.buffers, 1);
      if (view.accumulate == 1)
        writeBuffers(json, step.placed, 1);
      writeBuffers(json, step.gathered,
                   shareOf(items, "gathered parameters", m.gatherSpace));
      writeBuffers(json, step.gradients,
                   shareOf(items, "full gradients", m.gradientSpace));
    });
  });
}

void writeRoofline(OStream &json, const Manifest &m, const InspectView &view) {
  std::vector<CountedLaunch> launches = launchesOf(m, view);
  bool half = m.paramType != SHX_F32;
  json.attributeObject("roofline", [&] {
    json.attribute("device", view.device.name);
    json.attribute("flops_per_s",
                   half ? view.device.halfFlops : view.device.f32Flops);
    json.attribute("bytes_per_s", view.device.memoryBytesPerSecond);
    json.attribute("left_out", int64_t(launches.size() -
                                       std::min(launches.size(), kLaunches)));
    json.attributeArray("launches", [&] {
      for (const CountedLaunch &one :
           llvm::ArrayRef(launches).take_front(kLaunches))
        json.object([&] {
          json.attribute("kind", llvm::json::fixUTF8(one.launch->kind));
          json.attribute("name", llvm::json::fixUTF8(one.launch->name));
          json.attribute("count", int64_t(one.count));
          json.attribute("flops", one.launch->flops);
          json.attribute("bytes",
                         one.launch->readBytes + one.launch->writtenBytes);
          json.attribute("ms", one.seconds * kMillis);
        });
    });
  });
}

} // namespace shardonnx
