// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan in words, as a table and as JSON.

#include "InspectReport.h"
#include "PlanSearch.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace shardonnx {
namespace {

constexpr double kMillis = 1e3;

// As a shell reads it back.
std::string quoted(const std::string &word) {
  constexpr const char *kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
      "_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string describeOptions(const PlannedWay &way) {
  std::string text = std::string("--strategy=") + spell(way.strategy);
  if (way.recompute.kind != RecomputeKind::None)
    text += " --recompute=" + way.recompute.text();
  if (std::string offload = offloadText(way); offload != "none")
    text += " --offload=" + offload;
  if (way.mlpChunks > 1)
    text += " --mlp-chunks=" + std::to_string(way.mlpChunks);
  return text;
}

// A strategy, and on which axes where it has some.
std::string nameOf(const PlannedWay &way) {
  std::string axes = axesText(way);
  return spell(way.strategy) + (axes.empty() ? "" : " on " + axes);
}

std::string commandOf(const Plan &plan, const PlanOptions &options,
                      const PlannedWay &way) {
  std::string text = "shardonnx compile " + quoted(plan.model);
  if (plan.device.target == TargetKind::CUDA)
    text += " --target=cuda --arch=" + options.compile.arch;
  for (const std::string &argument : options.compileArguments)
    text += " " + quoted(argument);
  if (!options.compile.mesh.given() && !axesText(way).empty())
    text += " --mesh=" + axesText(way);
  text += std::string(" --param-dtype=") + spell(plan.paramDtype) +
          " --strategy=" + spell(way.strategy) +
          " --recompute=" + way.recompute.text() +
          (way.offloadActivations ? " --offload=activations" : "") +
          " --world-size=" + std::to_string(plan.gpus);
  return text;
}

} // namespace

void describeChoice(Plan &plan, const PlanOptions &options) {
  for (PlannedWay &way : plan.ways) {
    way.compileOptions = describeOptions(way);
    if (way.ranks.replicas > 1 &&
        options.compile.mesh.size(MeshAxis::Replicate) == 0)
      way.runOptions += "--replicas " + std::to_string(way.ranks.replicas);
    if (way.offload != Offload::None)
      way.runOptions += (way.runOptions.empty() ? "" : " ") +
                        std::string("--offload=") + spell(way.offload);
  }
  if (!plan.chosen) {
    const PlannedWay &least =
        *llvm::min_element(plan.ways, [](const auto &a, const auto &b) {
          return a.memoryBytes < b.memoryBytes;
        });
    plan.why = "nothing fits: " + nameOf(least) + " takes least, " +
               formatBytes(least.memoryBytes) + " of " +
               formatBytes(int64_t(plan.memoryBytes));
    return;
  }
  const PlannedWay &best = plan.ways[*plan.chosen];
  plan.command = commandOf(plan, options, best);
  const PlannedWay *next = nullptr;
  for (const PlannedWay &way : plan.ways)
    if (&way != &best && way.fits &&
        (!next || way.tokensPerSecondPerGpu > next->tokensPerSecondPerGpu))
      next = &way;
  if (plan.ways.size() == 1)
    plan.why = "the only one that was asked for, or that serves";
  else if (!next)
    plan.why = "the only one that fits";
  else if (isFaster(*next, best) && gainOf(*next, best) < 1 &&
           next->offload != best.offload)
    plan.why = llvm::formatv("the fastest that fits without --offload: {0} "
                             "with it is {1:F1} % faster, too little for what "
                             "is assumed of the links to the host",
                             nameOf(*next),
                             100 * (next->tokensPerSecondPerGpu /
                                        best.tokensPerSecondPerGpu -
                                    1))
                   .str();
  else if (best.tokensPerSecondPerGpu < 1.001 * next->tokensPerSecondPerGpu)
    plan.why = "the fastest that fits: as fast as " + nameOf(*next) + ", " +
               formatBytes(best.memoryBytes) + " against " +
               formatBytes(next->memoryBytes);
  else
    plan.why =
        llvm::formatv(
            "the fastest that fits: {0:F1} % more tokens a second "
            "than {1}, {2} against {3}",
            100 *
                (best.tokensPerSecondPerGpu / next->tokensPerSecondPerGpu - 1),
            nameOf(*next), formatBytes(best.memoryBytes),
            formatBytes(next->memoryBytes))
            .str();
}

/// Columns that are as wide as the longest of their words.
struct Widths {
  explicit Widths(const Plan &plan) {
    for (const std::vector<PlannedWay> *ways : {&plan.ways, &plan.remedies})
      for (const PlannedWay &way : *ways) {
        mesh = std::max(mesh, way.mesh.size() + 2);
        offload = std::max(offload, offloadText(way).size() + 1);
      }
  }
  size_t mesh = 22, offload = 10;
};

static void printWay(const PlannedWay &way, bool chosen, const Widths &widths,
                     llvm::raw_ostream &out) {
  out << llvm::formatv(
      "{0} {1,-19}{2,-11}{3}{4}{5,10}{6,11:F1}{7,10:F1}{8,12:F0}"
      "{9,8:F1}",
      chosen ? "*" : " ", spell(way.strategy), way.recompute.text(),
      llvm::left_justify(offloadText(way), unsigned(widths.offload)),
      llvm::left_justify(way.mesh, unsigned(widths.mesh)),
      formatBytes(way.memoryBytes), way.stepSeconds * kMillis,
      way.time.exposed * kMillis, way.tokensPerSecondPerGpu, 100 * way.mfu);
  if (way.hours)
    out << llvm::formatv("{0,10:F1}", *way.hours);
  if (way.cost)
    out << llvm::formatv("{0,12:F0}", *way.cost);
  out << (way.fits ? "\n" : "  does not fit\n");
}

static void printHead(const PlanOptions &options, const Widths &widths,
                      llvm::raw_ostream &out) {
  out << llvm::formatv("  {0,-19}{1,-11}{2}{3}{4,10}{5,11}{6,10}{7,12}{8,8}",
                       "strategy", "recompute",
                       llvm::left_justify("offload", unsigned(widths.offload)),
                       llvm::left_justify("mesh", unsigned(widths.mesh)),
                       "memory", "step ms", "exposed", "tok/s/GPU", "MFU %");
  if (options.tokens)
    out << "     hours";
  if (options.tokens && options.price)
    out << "        cost";
  out << '\n';
}

void printPlanText(const Plan &plan, const PlanOptions &options,
                   llvm::raw_ostream &out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  const PlannedWay &any = plan.ways.front();
  stream << llvm::formatv(
      "{0} on {1} x {2} ({3}), {4} a machine, {5} a rank; batch {6} x "
      "{7}, {8} microbatch{9} a step, {10} parameters\n\n",
      plan.model, plan.gpus, plan.device.name, plan.device.title,
      plan.gpusPerNode, formatBytes(int64_t(plan.memoryBytes)), any.batch,
      any.manifest->seq, options.accumulate,
      options.accumulate == 1 ? "" : "es", spell(plan.paramDtype));
  if (plan.as)
    stream << (plan.as->memory ? "times and memory as " : "times as ")
           << plan.as->name << " (" << plan.as->title << ") would take"
           << (plan.as->memory ? "" : "; memory as Shardonnx plans it")
           << "\n\n";
  Widths widths(plan);
  printHead(options, widths, stream);
  for (auto [index, way] : llvm::enumerate(plan.ways))
    printWay(way, plan.chosen == index, widths, stream);
  if (plan.chosen) {
    const PlannedWay &best = plan.ways[*plan.chosen];
    stream << "\nmemory of a rank with " << nameOf(best) << '\n';
    for (const MemoryItem &item : best.memory)
      if (item.bytes > 0)
        stream << llvm::formatv("  {0,-34}{1,10}\n", item.name,
                                formatBytes(item.bytes));
    if (best.headroomBytes > 0)
      stream << llvm::formatv("  {0,-34}{1,10}\n", "(beside it, must be free)",
                              formatBytes(best.headroomBytes));
    stream << "\ntake " << nameOf(best) << ": " << plan.why << '\n'
           << "  " << plan.command << '\n';
    if (!best.runOptions.empty())
      stream << "  and run it with " << best.runOptions << '\n';
  } else {
    stream << '\n' << plan.why << '\n';
    if (plan.remedies.empty())
      stream << "neither more ranks nor a smaller batch nor MLPs in chunks nor "
                "larger axes of the mesh let it fit\n";
    else
      stream << "what would:\n";
    for (const PlannedWay &way : plan.remedies) {
      stream << "  " << way.ranks.ranks << " ranks, batch " << way.batch << ", "
             << way.accumulate << " microbatches";
      if (way.mlpChunks > 1)
        stream << ", --mlp-chunks=" << way.mlpChunks;
      stream << '\n';
      printWay(way, false, widths, stream);
    }
  }
  out << printable(text, /*keepLines=*/true);
}

static void writeWay(llvm::json::OStream &json, const PlannedWay &way) {
  json.attribute("strategy", spell(way.strategy));
  json.attribute("mesh", way.mesh);
  json.attribute("recompute", way.recompute.text());
  json.attribute("offload", spell(way.offload));
  json.attribute("offload_activations", way.offloadActivations);
  json.attribute("mlp_chunks", way.mlpChunks);
  json.attribute("gpus", way.ranks.ranks);
  json.attribute("batch", way.batch);
  json.attribute("accumulate", way.accumulate);
  json.attribute("memory_bytes", way.memoryBytes);
  json.attributeObject("memory", [&] {
    for (const MemoryItem &item : way.memory)
      json.attribute(item.name, item.bytes);
  });
  json.attribute("headroom_bytes", way.headroomBytes);
  json.attribute("host_bytes", way.hostBytes);
  json.attribute("step_ms", way.stepSeconds * kMillis);
  json.attribute("work_ms", way.time.work * kMillis);
  json.attribute("exposed_ms", way.time.exposed * kMillis);
  writeExposedByAxis(json, way.time);
  json.attribute("products_ms", way.time.products * kMillis);
  json.attribute("attention_ms", way.time.attention * kMillis);
  json.attribute("memory_ms", way.time.memory * kMillis);
  json.attribute("host_ms", way.time.host * kMillis);
  double sent = 0;
  for (const UnitExposure &unit : way.time.units)
    sent += unit.gather + unit.reduce;
  json.attribute("collectives_ms", sent * kMillis);
  json.attribute("tokens_per_s_per_gpu", way.tokensPerSecondPerGpu);
  json.attribute("mfu", way.mfu);
  json.attribute("fits", way.fits);
  if (way.hours)
    json.attribute("hours", *way.hours);
  if (way.cost)
    json.attribute("cost", *way.cost);
}

void printPlanJson(const Plan &plan, const PlanOptions &options,
                   llvm::raw_ostream &out) {
  llvm::json::OStream json(out, /*IndentSize=*/2);
  auto ways = [&](llvm::StringRef key, const std::vector<PlannedWay> &list) {
    json.attributeArray(key, [&] {
      for (const PlannedWay &way : list)
        json.object([&] { writeWay(json, way); });
    });
  };
  json.object([&] {
    json.attribute("model", llvm::json::fixUTF8(plan.model));
    json.attribute("device", llvm::json::fixUTF8(plan.device.name));
    json.attribute("as", plan.as ? plan.as->name : "shardonnx");
    json.attribute("gpus", plan.gpus);
    json.attribute("gpus_per_node", plan.gpusPerNode);
    json.attribute("memory_limit_bytes", plan.memoryBytes);
    json.attribute("param_dtype", spell(plan.paramDtype));
    ways("plans", plan.ways);
    if (plan.chosen)
      json.attribute("chosen", static_cast<int64_t>(*plan.chosen));
    else
      json.attribute("chosen", nullptr);
    json.attribute("why", plan.why);
    ways("remedies", plan.remedies);
    json.attribute("command", llvm::json::fixUTF8(plan.command));
  });
  (void)options;
  out << '\n';
}

} // namespace shardonnx
