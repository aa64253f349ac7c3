// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx inspect --json`; the fields are documented in docs/inspect.md.

#include "InspectReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

namespace shardonnx {
namespace {

using llvm::json::OStream;

// What a page shows of long lists; --json alone has them whole.
constexpr int kRanksOnPage = 16;
constexpr int64_t kParamsOnPage = 4096;

int shownRanks(const InspectView &view) {
  return view.bounded ? std::min(view.topology.ranks, kRanksOnPage)
                      : view.topology.ranks;
}

// Of a unit: each of as many units has the same number at most.
size_t shownParams(const Manifest &m, const Manifest::Unit &unit,
                   const InspectView &view) {
  if (!view.bounded)
    return unit.params.size();
  auto units = static_cast<int64_t>(m.units.size());
  return std::min(unit.params.size(),
                  static_cast<size_t>(std::max<int64_t>(
                      1, kParamsOnPage / std::max<int64_t>(1, units))));
}

// Names come from ONNX files, which promise nothing about their encoding.
std::string text(llvm::StringRef raw) { return llvm::json::fixUTF8(raw); }

void writeShape(OStream &json, const std::vector<int64_t> &shape) {
  json.attributeArray("shape", [&] {
    for (int64_t size : shape)
      json.value(size);
  });
}

void writeProgram(OStream &json, const Manifest &m) {
  json.attribute("name", text(m.name));
  json.attribute("model", text(m.modelPath));
  json.attribute("version", text(m.version));
  json.attribute("target", spell(m.target));
  json.attribute("arch", text(m.arch));
  json.attribute("batch", m.batch);
  json.attribute("seq", m.seq);
  json.attribute("strategy", spell(m.strategy));
  json.attribute("param_dtype", spell(m.paramType));
  json.attribute("reduce_dtype", spell(m.reduceType));
  json.attribute("optimizer", spell(m.optimizer));
  json.attribute("optimizer_dtype", spell(m.optimizerType));
  json.attribute("master_dtype", spell(m.masterType));
  json.attribute("gather_dtype", spell(m.gatherType));
  json.attributeArray("inputs", [&] {
    for (const Manifest::Input &input : m.inputs)
      json.object([&] {
        json.attribute("name", text(input.name));
        json.attribute("kind", spell(input.kind));
        json.attribute("dtype", spell(input.dtype));
        writeShape(json, input.shape);
        json.attribute("bytes", input.bytes());
      });
  });
  json.attributeObject("loss", [&] {
    json.attribute("kind", spell(m.loss.kind));
    json.attribute("denominator", spell(m.loss.denominator));
    json.attribute("opaque",
                   m.loss.denominator == Manifest::Denominator::Batches);
    json.attribute("description", describeLoss(m));
  });
}

void writeRaised(OStream &json, const Manifest &m) {
  json.attributeArray("raised", [&] {
    for (const Manifest::Raised &entry : m.raised)
      json.object([&] {
        json.attribute("what", text(entry.what));
        json.attribute("count", static_cast<int64_t>(entry.nodes.size()));
        if (!entry.why.empty())
          json.attribute("why", text(entry.why));
        json.attributeArray("nodes", [&] {
          for (const std::string &node : entry.nodes)
            json.value(text(node));
        });
      });
  });
}

void writeUntrained(OStream &json, const Manifest &m) {
  json.attributeArray("untrained", [&] {
    for (const Manifest::Untrained &entry : m.untrained)
      json.object([&] {
        json.attribute("name", text(entry.name));
        json.attribute("reason", text(entry.reason));
      });
  });
}

void writeInterval(OStream &json, int rank, Interval interval) {
  json.object([&] {
    json.attribute("rank", rank);
    json.attribute("begin", interval.begin);
    json.attribute("end", interval.end);
  });
}

void writeParam(OStream &json, const Manifest::Unit &unit,
                const Manifest::Param &param, const InspectView &view) {
  json.attribute("name", text(param.name));
  json.attribute("onnx", text(param.onnx));
  writeShape(json, param.shape);
  json.attribute("elements", param.elements());
  json.attribute("trainable", param.trainable);
  json.attribute("offset", param.offset);
  if (param.packed) {
    json.attribute("packing", spell(param.packed->packing));
    json.attribute("length", param.length());
  }
  json.attributeArray("tied", [&] {
    for (const std::string &name : param.tied)
      json.value(text(name));
  });
  json.attributeArray("owned", [&] {
    int64_t length = param.trainable ? unit.length : unit.frozenLength;
    for (int rank = 0; rank < shownRanks(view); ++rank) {
      Interval part = cutToParameter(
          view.topology.owned(unit.sharded, length, rank), param);
      if (part.size() > 0)
        writeInterval(json, rank, part);
    }
  });
}

void writePolicy(OStream &json, const Manifest::Unit &unit) {
  json.attribute("param_dtype", spell(unit.paramType));
  json.attribute("reduce_dtype", spell(unit.reduceType));
  json.attribute("reshard_after_forward", unit.reshards);
  json.attribute("reshard_group", unit.reshardGroup);
  json.attribute("kept", unit.kept);
  json.attributeObject("policy", [&] {
    for (const auto &[key, value] : unit.policy)
      json.attribute(text(key), text(value));
  });
}

void writeUnit(OStream &json, const Manifest &m, const Manifest::Unit &unit,
               int64_t parent, const InspectView &view) {
  json.attribute("name", text(unit.name));
  if (parent >= 0)
    json.attribute("inside", text(m.units[static_cast<size_t>(parent)].name));
  json.attribute("layout", unit.sharded ? "sharded" : "replicated");
  json.attribute("trainable", countParameters(unit, true));
  json.attribute("frozen", countParameters(unit, false));
  json.attribute("length", unit.length);
  json.attribute("matrix_length", unit.matrixLength);
  json.attribute("frozen_length", unit.frozenLength);
  writePolicy(json, unit);
  json.attribute("gathered_bytes", (unit.length + unit.frozenLength) *
                                       dtypeBytes(unit.paramType));
  json.attribute("gradient_bytes", unit.gradientBytes());
  json.attribute("flops", unit.flops);
  json.attributeArray("owned", [&] {
    for (int rank = 0; rank < shownRanks(view); ++rank)
      writeInterval(json, rank,
                    view.topology.owned(unit.sharded, unit.length, rank));
  });
  json.attributeArray("params", [&] {
    std::vector<int> owners = muonOwners(m, unit, view.topology);
    for (size_t i = 0, n = shownParams(m, unit, view); i < n; ++i)
      json.object([&] {
        writeParam(json, unit, unit.params[i], view);
        if (owners[i] >= 0)
          json.attribute("muon_rank", owners[i]);
      });
  });
}

void writeFunctions(OStream &json, const Manifest &m) {
  json.attributeArray("functions", [&] {
    for (const Manifest::Function &function : m.functions)
      json.object([&] {
        json.attribute("name", text(function.name));
        json.attributeArray("collectives", [&] {
          for (const Manifest::Collective &call : function.collectives)
            json.object([&] {
              json.attribute("op", text(call.op));
              if (call.copy >= 0)
                json.attribute("copy", call.copy);
              if (call.copiedBytes > 0)
                json.attribute("copied_bytes", call.copiedBytes);
              if (call.unit >= 0)
                json.attribute(
                    "unit", text(m.units[static_cast<size_t>(call.unit)].name));
            });
        });
      });
  });
}

void writeTraffic(OStream &json, const Manifest &m, const InspectView &view) {
  StepTraffic traffic = stepTraffic(m, view);
  json.attributeObject("bytes_sent", [&] {
    json.attribute("ranks", view.topology.ranks);
    json.attribute("replicas", view.topology.replicas);
    json.attribute("microbatches", view.accumulate);
    json.attribute("all_gather", traffic.allGather);
    json.attribute("reduce_scatter", traffic.reduceScatter);
    json.attribute("all_reduce", traffic.allReduce);
  });
}

void writeSpace(OStream &json, const char *name, const Manifest::Space &space) {
  json.attributeObject(name, [&] {
    json.attribute("bytes", space.bytes);
    json.attribute("lower_bound_bytes", space.lowerBoundBytes);
    json.attribute("peak_at", text(space.peakAt));
    json.attributeArray("live", [&] {
      for (const Manifest::LiveBuffer &buffer : space.live)
        json.object([&] {
          json.attribute("name", text(buffer.name));
          json.attribute("bytes", buffer.bytes);
        });
    });
  });
}

void writeMemory(OStream &json, const Manifest &m, const InspectView &view) {
  std::vector<MemoryItem> items = planMemory(
      m, view.topology, view.threadsPerRank, view.accumulate, view.offload);
  json.attributeObject("memory", [&] {
    json.attribute("ranks", view.topology.ranks);
    json.attribute("replicas", view.topology.replicas);
    json.attribute("threads_per_rank", view.threadsPerRank);
    json.attribute("peak_bytes", totalBytes(items));
    json.attribute("offloaded_bytes",
                   offloadedBytes(m, view.topology, view.offload));
    if (m.hostSpace.bytes > 0)
      json.attribute("offloaded_activation_bytes", m.hostSpace.bytes);
    if (view.run) {
      json.attribute("run_peak_bytes", view.run->planned);
      json.attribute("run_measured_bytes", view.run->measured);
      if (view.run->context)
        json.attribute("run_context_bytes", *view.run->context);
    }
    json.attributeArray("items", [&] {
      for (const MemoryItem &item : items)
        json.object([&] {
          json.attribute("name", item.name);
          json.attribute("bytes", item.bytes);
        });
    });
    json.attributeArray("headroom", [&] {
      for (const MemoryItem &item : planHeadroom(m, view.topology))
        json.object([&] {
          json.attribute("name", item.name);
          json.attribute("bytes", item.bytes);
        });
    });
    json.attributeObject("spaces", [&] {
      writeSpace(json, "private", m.privateSpace);
      writeSpace(json, "gather", m.gatherSpace);
      writeSpace(json, "gradients", m.gradientSpace);
      if (m.hostSpace.bytes > 0)
        writeSpace(json, "host", m.hostSpace);
    });
    json.attribute("gather_in_place", m.gathersInPlace());
  });
}

void writeNumber(OStream &json, const char *key, std::optional<double> value) {
  if (value)
    json.attribute(key, *value);
}

void writeRun(OStream &json, const InspectView &view) {
  if (!view.run)
    return;
  json.attributeObject("run", [&] {
    json.attribute("steps", view.run->steps);
    json.attributeArray("points", [&] {
      for (const RunMemory::Point &point : view.run->points)
        json.object([&] {
          json.attribute("step", point.step);
          writeNumber(json, "loss", point.loss);
          writeNumber(json, "step_ms", point.milliseconds);
          writeNumber(json, "tokens_per_s", point.tokensPerSecond);
          json.attribute("pss_bytes", point.measured);
        });
    });
  });
}

void writeLeftOut(OStream &json, const Manifest &m, const InspectView &view) {
  int64_t params = 0;
  for (const Manifest::Unit &unit : m.units)
    params +=
        static_cast<int64_t>(unit.params.size() - shownParams(m, unit, view));
  json.attributeObject("left_out", [&] {
    json.attribute("ranks", view.topology.ranks - shownRanks(view));
    json.attribute("params", params);
  });
}

} // namespace

void printInspectJson(const Manifest &m, const InspectView &view,
                      llvm::raw_ostream &out) {
  OStream json(out, /*IndentSize=*/2);
  json.object([&] {
    writeProgram(json, m);
    json.attribute("flops_per_microbatch", m.flopsPerMicrobatch);
    json.attributeArray("units", [&] {
      for (auto [unit, parent] : llvm::zip_equal(m.units, parentsOf(m)))
        json.object([&] { writeUnit(json, m, unit, parent, view); });
    });
    writeRaised(json, m);
    writeUntrained(json, m);
    writeFunctions(json, m);
    writeMesh(json, m, view);
    writeTraffic(json, m, view);
    writeMemory(json, m, view);
    writeExposure(json, m, view);
    writeRun(json, view);
    writeTimeline(json, m, view);
    writeRoofline(json, m, view);
    if (view.bounded)
      writeLeftOut(json, m, view);
    if (view.traffic)
      writeMemoryTraffic(json, m, view);
  });
  out << '\n';
}

} // namespace shardonnx
