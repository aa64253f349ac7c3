// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The communication of a step as `shardonnx inspect` shows it: what the model
// of the device predicts, and beside it what a run's trace has measured.

#include "InspectReport.h"
#include "shardonnx/Cost/Exposure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace shardonnx {
namespace {

constexpr double kMillis = 1e3;

struct Row {
  std::string name;
  UnitExposure predicted;
  std::optional<MeasuredExposure::Unit> measured;
};

// The most exposed first; equals stay in the program's order.
std::vector<Row> rowsOf(const Manifest &m, const InspectView &view,
                        const StepExposure &step) {
  std::vector<Row> rows;
  for (auto [unit, predicted] : llvm::zip_equal(m.units, step.units)) {
    Row row{unit.name, predicted, std::nullopt};
    if (view.trace)
      if (auto found = view.trace->units.find(unit.name);
          found != view.trace->units.end())
        row.measured = found->second;
    rows.push_back(std::move(row));
  }
  llvm::stable_sort(rows, [](const Row &a, const Row &b) {
    return a.predicted.exposed > b.predicted.exposed;
  });
  return rows;
}

// As many as fit on a screen; the others are summed up.
void shorten(std::vector<Row> &rows) {
  constexpr size_t kShown = 12;
  if (rows.size() <= kShown + 1)
    return;
  Row others;
  others.name = "(" + std::to_string(rows.size() - kShown) + " others)";
  for (const Row &row : llvm::ArrayRef(rows).drop_front(kShown)) {
    others.predicted.gather += row.predicted.gather;
    others.predicted.reduce += row.predicted.reduce;
    others.predicted.exposed += row.predicted.exposed;
    if (!row.measured)
      continue;
    if (!others.measured)
      others.measured.emplace();
    others.measured->exposed += row.measured->exposed;
  }
  rows.resize(kShown);
  rows.push_back(std::move(others));
}

void printRow(const Row &row, llvm::raw_ostream &out) {
  out << llvm::formatv("  {0,-28}{1,10:F3}{2,10:F3}{3,10:F3}", row.name,
                       row.predicted.gather * kMillis,
                       row.predicted.reduce * kMillis,
                       row.predicted.exposed * kMillis);
  if (row.measured)
    out << llvm::formatv("{0,10:F3}", row.measured->exposed);
  out << '\n';
}

// A step of one microbatch against the device.
struct Speed {
  bool half;                  // operands of 16 bits
  double peak = 0;            // FLOPs a second of the data sheet
  double mfu = 0, tokens = 0; // of a rank, a second
};
Speed speedOf(const Manifest &m, const Device &device,
              const StepExposure &step) {
  Speed speed{m.paramType != SHX_F32};
  speed.peak = speed.half ? device.halfPeak : device.f32Peak;
  if (step.seconds() <= 0)
    return speed;
  speed.tokens = tokensPerSecond(m, 1, step.seconds());
  if (speed.peak > 0)
    speed.mfu = m.flopsPerMicrobatch / step.seconds() / speed.peak;
  return speed;
}

// With the figures that it rests on: what the device reaches.
void printSpeed(const Manifest &m, const InspectView &view,
                const StepExposure &step, llvm::raw_ostream &out) {
  const Device &device = view.device;
  Speed speed = speedOf(m, device, step);
  constexpr double kTera = 1e12, kGiga = 1e9;
  out << llvm::formatv(
      "\npredicted for {0}: a step of one microbatch {1:F2} ms (work {2:F2}, "
      "exposed {3:F2}), {4:F0} tokens/s a rank, MFU {5:F1} %\n",
      device.name, step.seconds() * kMillis, step.work * kMillis,
      step.exposed * kMillis, speed.tokens, speed.mfu * 100);
  out << llvm::formatv(
      "  of a peak of {0:F2} TFLOP/s large products reach {1:F2}, attention "
      "{2:F2} forward and {3:F2} backward; memory {4:F0} GB/s, links {5:F0}\n",
      speed.peak / kTera,
      (speed.half ? device.halfFlops : device.f32Flops) / kTera,
      attentionReached(m, Manifest::Phase::Forward, device) / kTera,
      attentionReached(m, Manifest::Phase::Backward, device) / kTera,
      device.memoryBytesPerSecond / kGiga,
      device.within.bytesPerSecond / kGiga);
}

StepExposure stepOf(const Manifest &m, const InspectView &view) {
  StepPlay play;
  play.offload = view.offload;
  return predictExposure(m, view.device, view.topology, play);
}

// Of the exposed time: that of collectives within the work.
double alongAxes(const StepExposure &step) {
  return step.exposedByAxis[size_t(MeshAxis::Context)] +
         step.exposedByAxis[size_t(MeshAxis::Tensor)];
}

// Where there is more than one axis to wait for.
void printAxes(const StepExposure &step, const Topology &topology,
               llvm::raw_ostream &out) {
  if (topology.replicas == 1 && topology.together() == 1)
    return;
  out << "  exposed by axis:";
  for (const Spelling<MeshAxis> &axis : Spellings<MeshAxis>::table)
    out << llvm::formatv(
        "{0} {1} {2:F3}", axis.value == MeshAxis::Replicate ? "" : ",",
        axis.text, step.exposedByAxis[size_t(axis.value)] * kMillis);
  out << '\n';
}

} // namespace

void printExposure(const Manifest &m, const InspectView &view,
                   llvm::raw_ostream &out) {
  StepExposure step = stepOf(m, view);
  printSpeed(m, view, step, out);
  if (m.hostSpace.bytes > 0)
    out << llvm::formatv("  of what is exposed, {0:F3} ms are waits for "
                         "activations on their way to the host and back\n",
                         step.copies * kMillis);
  if (view.topology.ranks == 1 && !view.trace)
    return;
  out << llvm::formatv(
      "\ncommunication of a step, ms, predicted for {0}, {1} ranks{2}\n",
      view.device.name, view.topology.ranks,
      view.trace && view.trace->ranks != view.topology.ranks
          ? "; measured with " + std::to_string(view.trace->ranks)
          : "");
  out << llvm::formatv("  {0,-28}{1,10}{2,10}{3,10}", "unit", "gather",
                       "reduce", "exposed");
  out << (view.trace ? "  measured\n" : "\n");
  std::vector<Row> rows = rowsOf(m, view, step);
  Row all{"total", {}, std::nullopt};
  for (const Row &row : rows) {
    all.predicted.gather += row.predicted.gather;
    all.predicted.reduce += row.predicted.reduce;
  }
  all.predicted.exposed = step.exposed;
  if (view.trace) {
    all.measured.emplace();
    all.measured->exposed = view.trace->exposed;
  }
  if (!view.parameters)
    shorten(rows);
  for (const Row &row : rows)
    printRow(row, out);
  if (double along = alongAxes(step); along > 0)
    printRow({"along the mesh", {0, 0, along}, std::nullopt}, out);
  if (step.copies > 0)
    printRow({"to the host and back", {0, 0, step.copies}, std::nullopt}, out);
  printRow(all, out);
  printAxes(step, view.topology, out);
}

void writeExposedByAxis(llvm::json::OStream &json, const StepExposure &step) {
  json.attributeObject("exposed_by_axis_ms", [&] {
    for (const Spelling<MeshAxis> &axis : Spellings<MeshAxis>::table)
      json.attribute(axis.text,
                     step.exposedByAxis[size_t(axis.value)] * kMillis);
  });
}

void writeExposure(llvm::json::OStream &json, const Manifest &m,
                   const InspectView &view) {
  StepExposure step = stepOf(m, view);
  json.attributeObject("communication", [&] {
    json.attribute("device", view.device.name);
    json.attribute("step_ms", step.seconds() * kMillis);
    json.attribute("work_ms", step.work * kMillis);
    json.attribute("exposed_ms", step.exposed * kMillis);
    json.attribute("exposed_copies_ms", step.copies * kMillis);
    writeExposedByAxis(json, step);
    const Device &device = view.device;
    Speed speed = speedOf(m, device, step);
    json.attribute("tokens_per_s", speed.tokens);
    json.attribute("mfu", speed.mfu);
    json.attribute("peak_flops", speed.peak);
    json.attributeObject("reached", [&] {
      json.attribute("product_flops",
                     speed.half ? device.halfFlops : device.f32Flops);
      json.attribute("attention_forward_flops",
                     attentionReached(m, Manifest::Phase::Forward, device));
      json.attribute("attention_backward_flops",
                     attentionReached(m, Manifest::Phase::Backward, device));
      json.attribute("memory_bytes_per_second", device.memoryBytesPerSecond);
      json.attribute("link_bytes_per_second", device.within.bytesPerSecond);
    });
    if (view.trace) {
      json.attribute("measured_ranks", view.trace->ranks);
      json.attribute("measured_exposed_ms", view.trace->exposed);
    }
    json.attributeArray("units", [&] {
      for (auto [unit, predicted] : llvm::zip_equal(m.units, step.units))
        json.object([&, &unit = unit, &predicted = predicted] {
          json.attribute("name", llvm::json::fixUTF8(unit.name));
          json.attribute("gather_ms", predicted.gather * kMillis);
          json.attribute("reduce_ms", predicted.reduce * kMillis);
          json.attribute("exposed_ms", predicted.exposed * kMillis);
          if (!view.trace)
            return;
          auto found = view.trace->units.find(unit.name);
          if (found == view.trace->units.end())
            return;
          json.attribute("measured_gather_ms", found->second.gather);
          json.attribute("measured_reduce_ms", found->second.reduce);
          json.attribute("measured_exposed_ms", found->second.exposed);
        });
    });
  });
}

} // namespace shardonnx
