// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx inspect --traffic`: what a step moves through memory, launch by
// launch, against the least that would do.

#include "InspectReport.h"
#include "shardonnx/Cost/MemoryTraffic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

namespace shardonnx {
namespace {

using llvm::raw_ostream;

constexpr double kMillis = 1e3;
constexpr double kMega = 1e6;

std::vector<std::string> kindsOf(const MemoryTraffic &traffic) {
  std::vector<std::string> kinds;
  for (const UnitTraffic &unit : traffic.units)
    for (const LaunchTraffic &launch : unit.launches)
      if (!llvm::is_contained(kinds, launch.kind))
        kinds.push_back(launch.kind);
  return kinds;
}

const char *wordOf(const LaunchTraffic &launch) {
  return launch.update ? "update" : spell(launch.phase);
}

std::string ratioOf(const Moved &moved) {
  if (moved.least == 0)
    return "-";
  return llvm::formatv("{0:F2}", moved.bytes() / moved.least).str();
}

constexpr const char *kRow =
    "  {0,-44} {1,8} {2,6} {3,11} {4,11} {5,11} {6,7} {7,9}\n";

void printHeader(const char *what, raw_ostream &out) {
  out << llvm::formatv(kRow, what, "kernels", "calls", "read", "written",
                       "least", "ratio", "ms");
}

void printMoved(const std::string &name, const Moved &moved, raw_ostream &out) {
  auto mega = [](double bytes) {
    return llvm::formatv("{0:F2}", bytes / kMega).str();
  };
  out << llvm::formatv(kRow, name, moved.kernels, moved.calls, mega(moved.read),
                       mega(moved.written), mega(moved.least), ratioOf(moved),
                       llvm::formatv("{0:F3}", moved.seconds * kMillis).str());
}

// Units that launch the same are told once.
void printUnits(const MemoryTraffic &traffic, raw_ostream &out) {
  printHeader("by unit", out);
  std::vector<bool> told(traffic.units.size());
  for (auto [index, unit] : llvm::enumerate(traffic.units)) {
    if (told[index] || unit.launches.empty())
      continue;
    int64_t like = 0;
    for (size_t other = index + 1; other < traffic.units.size(); ++other)
      if (!told[other] && unit.alike(traffic.units[other])) {
        told[other] = true;
        ++like;
      }
    std::string name = unit.name.empty() ? "(no unit)" : unit.name;
    if (like > 0)
      name += " and " + std::to_string(like) + " like it, each";
    printMoved(name, unit.total(), out);
  }
}

Moved generatedOf(const UnitTraffic &unit) {
  Moved sum;
  for (const LaunchTraffic &launch : unit.launches)
    if (launch.moved.elements > 0)
      sum += launch.moved;
  return sum;
}

void printLayer(const MemoryTraffic &traffic, raw_ostream &out) {
  auto [index, count] = traffic.layer();
  if (count == 0 || traffic.tokens == 0)
    return;
  const UnitTraffic &unit = traffic.units[index];
  auto tokens = static_cast<double>(traffic.tokens);
  Moved total = unit.total(), generated = generatedOf(unit);
  out << llvm::formatv("\na layer, {0} ({1} alike): {2} kernels, {3} library "
                       "calls; a token moves {4:F0} bytes, and {5:F0} elements "
                       "in generated kernels\n",
                       unit.name, count, total.kernels, total.calls,
                       total.bytes() / tokens, generated.elements / tokens);
  printHeader("launches of it", out);
  for (const LaunchTraffic &launch : unit.launches)
    printMoved(llvm::formatv("{0,-9} {1}", wordOf(launch), launch.name).str(),
               launch.moved, out);
}

// Bytes a parameter that the rank owns: of what happens once a step, and of
// casts, which each microbatch may repeat.
struct PerParameter {
  double update = 0, casts = 0;
};

PerParameter perParameter(const MemoryTraffic &traffic,
                          const InspectView &view) {
  PerParameter bytes;
  if (traffic.parameters == 0)
    return bytes;
  auto parameters = static_cast<double>(traffic.parameters);
  for (const char *kind : {"norm", "optimizer"})
    bytes.update += traffic.ofKind(kind).bytes() / parameters;
  for (const UnitTraffic &unit : traffic.units)
    for (const LaunchTraffic &launch : unit.launches)
      if (launch.kind == "cast" && !launch.update)
        bytes.casts += launch.moved.bytes() / parameters /
                       static_cast<double>(view.accumulate);
  return bytes;
}

void writeMoved(llvm::json::OStream &json, const Moved &moved) {
  json.attribute("kernels", moved.kernels);
  json.attribute("calls", moved.calls);
  json.attribute("read_bytes", moved.read);
  json.attribute("written_bytes", moved.written);
  json.attribute("least_bytes", moved.least);
  json.attribute("elements", moved.elements);
  json.attribute("ms", moved.seconds * kMillis);
}

void writeUnit(llvm::json::OStream &json, const UnitTraffic &unit) {
  json.attribute("name", llvm::json::fixUTF8(unit.name));
  writeMoved(json, unit.total());
  json.attributeArray("launches", [&] {
    for (const LaunchTraffic &launch : unit.launches)
      json.object([&] {
        json.attribute("phase", wordOf(launch));
        json.attribute("kind", launch.kind);
        json.attribute("name", launch.name);
        json.attribute("count", launch.count);
        writeMoved(json, launch.moved);
      });
  });
}

} // namespace

void printMemoryTraffic(const Manifest &m, const InspectView &view,
                        raw_ostream &out) {
  MemoryTraffic traffic =
      memoryTraffic(m, view.device, view.topology, view.accumulate);
  out << llvm::formatv("memory traffic of a step of {0} microbatch{1} on one "
                       "of {2} rank{3}, MB of {4} tokens; ms as predicted for "
                       "{5}\n",
                       view.accumulate, view.accumulate == 1 ? "" : "es",
                       view.topology.ranks, view.topology.ranks == 1 ? "" : "s",
                       traffic.tokens, view.device.name);
  printHeader("by kind", out);
  for (const std::string &kind : kindsOf(traffic))
    printMoved(kind, traffic.ofKind(kind), out);
  printMoved("total", traffic.total(), out);
  out << '\n';
  printUnits(traffic, out);
  printLayer(traffic, out);
  PerParameter bytes = perParameter(traffic, view);
  out << llvm::formatv("\nbytes a parameter: {0:F1} by the norm and the "
                       "optimizer, {1:F1} by casts of a microbatch\n",
                       bytes.update, bytes.casts);
}

void writeMemoryTraffic(llvm::json::OStream &json, const Manifest &m,
                        const InspectView &view) {
  MemoryTraffic traffic =
      memoryTraffic(m, view.device, view.topology, view.accumulate);
  json.attributeObject("traffic", [&] {
    json.attribute("device", view.device.name);
    json.attribute("tokens", traffic.tokens);
    writeMoved(json, traffic.total());
    json.attributeArray("kinds", [&] {
      for (const std::string &kind : kindsOf(traffic))
        json.object([&] {
          json.attribute("kind", kind);
          writeMoved(json, traffic.ofKind(kind));
        });
    });
    if (auto [index, count] = traffic.layer(); count > 0)
      json.attributeObject("layer", [&, index = index, count = count] {
        const UnitTraffic &unit = traffic.units[index];
        auto tokens = double(std::max<int64_t>(traffic.tokens, 1));
        Moved total = unit.total();
        json.attribute("unit", llvm::json::fixUTF8(unit.name));
        json.attribute("alike", count);
        json.attribute("kernels", total.kernels);
        json.attribute("calls", total.calls);
        json.attribute("bytes_per_token", total.bytes() / tokens);
        json.attribute("elements_per_token",
                       generatedOf(unit).elements / tokens);
      });
    PerParameter bytes = perParameter(traffic, view);
    json.attribute("update_bytes_per_parameter", bytes.update);
    json.attribute("cast_bytes_per_parameter", bytes.casts);
    json.attributeArray("units", [&] {
      for (const UnitTraffic &unit : traffic.units)
        if (!unit.launches.empty())
          json.object([&] { writeUnit(json, unit); });
    });
  });
}

} // namespace shardonnx
