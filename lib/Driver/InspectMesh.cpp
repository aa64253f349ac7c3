// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of inspect: the mesh, and what ranks send along its axes.

#include "InspectReport.h"
#include "shardonnx/Cost/AxisTime.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Choices.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace shardonnx;

namespace {

/// Collectives of one kind in one phase of a microbatch.
struct AxisTraffic {
  int64_t calls = 0;
  double bytes = 0; // that a rank sends, in the algorithm of least traffic
};
using AxisTraffics =
    std::map<std::pair<Manifest::Phase, std::string>, AxisTraffic>;

} // namespace

static AxisTraffics axisTraffics(const Manifest &m) {
  AxisTraffics traffics;
  for (const Manifest::Function &function : m.functions) {
    if (function.name != "first_microbatch")
      continue;
    for (const Manifest::LaunchRun &run : function.launches) {
      const Manifest::Launch &launch = m.launches[run.launch];
      std::optional<AxisLaunch> sent = axisLaunch(launch, m.mesh);
      if (!sent)
        continue;
      AxisTraffic &traffic = traffics[{run.phase, launch.name}];
      traffic.calls += run.count;
      traffic.bytes += static_cast<double>(run.count) * bytesSent(*sent);
    }
  }
  return traffics;
}

// The way of attention over parts of sequences, by what it alone sends.
static const char *contextAttention(const AxisTraffics &traffics) {
  static constexpr std::pair<const char *, ContextAttention> kWays[] = {
      {"part_shift", ContextAttention::Ring},
      {"all_to_all", ContextAttention::Ulysses},
      {"all_gather", ContextAttention::AllGather}};
  for (auto [call, way] : kWays)
    if (traffics.count({Manifest::Phase::Forward,
                        std::string(call) + " " + spell(MeshAxis::Context)}))
      return spell(way);
  return nullptr;
}

// Lines of ranks that compute one sample together, the first few; a part of the
// sequence is apart from the next one.
static void drawMesh(const Topology &topology, llvm::raw_ostream &out) {
  constexpr int kShown = 8;
  int together = topology.together(), lines = topology.ranks / together;
  for (int line = 0; line < std::min(lines, kShown); ++line) {
    int first = line * together;
    out << "  replica " << topology.replica(first) << ", shard "
        << topology.groupRank(first) / topology.context << ": "
        << (together == 1 ? "rank" : "ranks");
    for (int rank = first; rank < first + std::min(together, kShown); ++rank) {
      bool next =
          topology.tensor > 1 && rank > first && topology.tensorRank(rank) == 0;
      out << (next ? " | " : " ") << rank;
    }
    out << (together > kShown ? " ...\n" : "\n");
  }
  if (lines > kShown)
    out << "  and " << lines - kShown << " more\n";
}

void shardonnx::printMesh(const Manifest &m, const InspectView &view,
                          llvm::raw_ostream &out) {
  if (!m.mesh.given())
    return;
  const Topology &topology = view.topology;
  out << "\nmesh: replicate " << topology.replicas << " x shard "
      << topology.groupSize() / topology.context << " x context "
      << topology.context << " x tensor " << topology.tensor
      << "; the ranks of a line compute the same samples together\n";
  drawMesh(topology, out);
  AxisTraffics traffics = axisTraffics(m);
  if (traffics.empty())
    return;
  if (const char *way = contextAttention(traffics))
    out << "attention over the context axis: " << way << "\n";
  out << "bytes that each rank sends along the mesh in a microbatch\n";
  for (const auto &[key, traffic] : traffics) {
    auto bytes = static_cast<int64_t>(traffic.bytes);
    out << "  " << spell(key.first) << ": " << key.second << " x"
        << traffic.calls << ", " << formatBytes(bytes) << " (" << bytes
        << ")\n";
  }
}

void shardonnx::writeMesh(llvm::json::OStream &json, const Manifest &m,
                          const InspectView &view) {
  if (!m.mesh.given())
    return;
  json.attributeObject("mesh", [&] {
    json.attribute("replicate", view.topology.replicas);
    json.attribute("shard", view.topology.groupSize() / view.topology.context);
    json.attribute("context", view.topology.context);
    json.attribute("tensor", view.topology.tensor);
    AxisTraffics traffics = axisTraffics(m);
    if (const char *way = contextAttention(traffics))
      json.attribute("context_attention", way);
    json.attributeArray("collectives", [&] {
      for (const auto &[key, traffic] : traffics)
        json.object([&] {
          json.attribute("op", key.second);
          json.attribute("phase", spell(key.first));
          json.attribute("calls", traffic.calls);
          json.attribute("bytes_sent", traffic.bytes);
        });
    });
  });
}
