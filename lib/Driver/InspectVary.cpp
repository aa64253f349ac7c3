// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx inspect --vary`: what one option changes, a line for each of its
// values.

#include "CheckOptions.h"
#include "InspectReport.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Printable.h"

#include "llvm/Support/FormatVariadic.h"

namespace shardonnx {
namespace {

constexpr double kMillis = 1e3;

struct Row {
  std::string value;
  int64_t bytes = 0, offloaded = 0, units = 0;
  double seconds = 0, exposed = 0, tokens = 0; // of a rank
  std::optional<bool> fits; // on a device whose memory is the rank's own
};

Row rowOf(const std::string &value, const Inspected &program) {
  const auto &[m, view] = program;
  StepPlay play;
  play.microbatches = view.accumulate;
  play.offload = view.offload;
  StepExposure step = predictExposure(m, view.device, view.topology, play);
  Row row;
  row.value = value;
  row.bytes = totalBytes(planMemory(m, view.topology, view.threadsPerRank,
                                    view.accumulate, view.offload));
  row.offloaded = offloadedBytes(m, view.topology, view.offload);
  row.units = static_cast<int64_t>(m.units.size());
  double offload =
      row.offloaded == 0
          ? 0
          : offloadSeconds(m, view.topology, view.offload, view.device);
  row.seconds = step.seconds() + offload;
  row.exposed = step.exposed + offload;
  row.tokens = tokensPerSecond(m, view.accumulate, row.seconds);
  if (m.cuda() && view.device.memoryBytes > 0)
    row.fits = double(row.bytes + totalBytes(planHeadroom(m, view.topology))) <=
               view.device.memoryBytes - view.device.reservedBytes;
  return row;
}

// The fastest of those that fit; of those within a thousandth, which is less
// than the prediction knows, the first.
size_t bestOf(const std::vector<Row> &rows) {
  size_t best = rows.size();
  for (size_t index = 0; index < rows.size(); ++index)
    if (rows[index].fits.value_or(true) &&
        (best == rows.size() || rows[index].tokens > 1.001 * rows[best].tokens))
      best = index;
  return best;
}

void print(const std::vector<Row> &rows, const std::string &name,
           const Inspected &program, llvm::raw_ostream &out) {
  const auto &[m, view] = program;
  size_t width = name.size();
  for (const Row &row : rows)
    width = std::max(width, row.value.size());
  auto pad = [&](const std::string &text) {
    return text + std::string(width - text.size(), ' ');
  };
  out << llvm::formatv("{0}  {1,12}{2,12}{3,12}{4,14}\n", pad(name), "memory",
                       "step ms", "exposed ms", "tokens/s");
  size_t best = bestOf(rows);
  for (size_t index = 0; index < rows.size(); ++index) {
    const Row &row = rows[index];
    out << llvm::formatv("{0}  {1,12}{2,12:F3}{3,12:F3}{4,14:F0}",
                         pad(row.value), formatBytes(row.bytes),
                         row.seconds * kMillis, row.exposed * kMillis,
                         row.tokens);
    if (row.offloaded > 0)
      out << "  and " << formatBytes(row.offloaded) << " offloaded";
    if (!row.fits.value_or(true))
      out << "  does not fit in "
          << formatBytes(int64_t(view.device.memoryBytes));
    else if (index == best && rows.size() > 1)
      out << "  fastest";
    out << '\n';
  }
  out << "of a rank";
  if (name != "nproc")
    out << " of " << view.topology.ranks;
  if (name != "device")
    out << ", predicted for " << view.device.name;
  out << '\n';
}

void writeJson(const std::vector<Row> &rows, const std::string &name,
               llvm::raw_ostream &out) {
  llvm::json::OStream json(out, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("option", name);
    json.attributeArray("rows", [&] {
      for (const Row &row : rows)
        json.object([&] {
          json.attribute("value", llvm::json::fixUTF8(row.value));
          json.attribute("memory_bytes", row.bytes);
          json.attribute("offloaded_bytes", row.offloaded);
          json.attribute("units", row.units);
          json.attribute("step_ms", row.seconds * kMillis);
          json.attribute("exposed_ms", row.exposed * kMillis);
          json.attribute("tokens_per_s_per_gpu", row.tokens);
          if (row.fits)
            json.attribute("fits", *row.fits);
        });
    });
    if (size_t best = bestOf(rows); best < rows.size())
      json.attribute("fastest", static_cast<int64_t>(best));
  });
  out << '\n';
}

} // namespace

int runInspectRows(const std::string &name,
                   const std::vector<InspectRow> &given) {
  Diagnostics diagnostics;
  std::vector<Row> rows;
  std::optional<Inspected> last;
  for (const InspectRow &row : given) {
    mlir::FailureOr<Inspected> program =
        inspectProgram(row.options, diagnostics);
    if (mlir::failed(program))
      return exitCodeOf(diagnostics);
    rows.push_back(rowOf(row.value, *program));
    last = std::move(*program);
  }
  if (given.front().options.json) {
    writeJson(rows, name, llvm::outs());
  } else {
    std::string text;
    llvm::raw_string_ostream stream(text);
    print(rows, name, *last, stream);
    llvm::outs() << printable(text, /*keepLines=*/true);
  }
  return finishOutput(diagnostics);
}

} // namespace shardonnx
