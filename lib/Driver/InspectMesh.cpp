// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of inspect: the mesh, and what its tensor axis sends.

#include "InspectReport.h"
#include "shardonnx/Dialect/Exec/Transforms/Launches.h"
#include "shardonnx/runtime/ByteSize.h"

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

// Of N ranks' tensors of B bytes, a sum takes 2·B·(N-1)/N, half of that where
// each rank keeps a part of it, a gather of N parts B·(N-1), as Traffic.h
// counts; a slice sends nothing.
static double bytesSent(const Manifest::Launch &launch, double ranks) {
  llvm::StringRef name = launch.name;
  if (name.starts_with("all_reduce"))
    return 2 * launch.readBytes * (ranks - 1) / ranks;
  if (name.starts_with("reduce_scatter"))
    return launch.readBytes * (ranks - 1) / ranks;
  return name.starts_with("all_gather") ? launch.readBytes * (ranks - 1) : 0;
}

static AxisTraffics axisTraffics(const Manifest &m) {
  AxisTraffics traffics;
  for (const Manifest::Function &function : m.functions) {
    if (function.name != "first_microbatch")
      continue;
    for (const Manifest::LaunchRun &run : function.launches) {
      const Manifest::Launch &launch = m.launches[run.launch];
      if (launch.kind != exec::kMeshLaunch)
        continue;
      AxisTraffic &traffic = traffics[{run.phase, launch.name}];
      traffic.calls += run.count;
      traffic.bytes += static_cast<double>(run.count) *
                       bytesSent(launch, static_cast<double>(m.mesh.tensor()));
    }
  }
  return traffics;
}

// Lines of ranks that compute one sample together, the first few.
static void drawMesh(const Topology &topology, llvm::raw_ostream &out) {
  constexpr int kShown = 8;
  int lines = std::min(topology.dataRanks(), kShown);
  for (int line = 0; line < lines; ++line) {
    int first = line * topology.tensor;
    out << "  replica " << topology.replica(first) << ", shard "
        << topology.groupRank(first) << ": "
        << (topology.tensor == 1 ? "rank" : "ranks");
    for (int rank = first; rank < first + std::min(topology.tensor, kShown);
         ++rank)
      out << ' ' << rank;
    out << (topology.tensor > kShown ? " ...\n" : "\n");
  }
  if (topology.dataRanks() > lines)
    out << "  and " << topology.dataRanks() - lines << " more\n";
}

void shardonnx::printMesh(const Manifest &m, const InspectView &view,
                          llvm::raw_ostream &out) {
  if (!m.mesh.given())
    return;
  const Topology &topology = view.topology;
  out << "\nmesh: replicate " << topology.replicas << " x shard "
      << topology.groupSize() << " x context 1 x tensor " << topology.tensor
      << "; the ranks of a line compute the same samples together\n";
  drawMesh(topology, out);
  AxisTraffics traffics = axisTraffics(m);
  if (traffics.empty())
    return;
  out << "bytes that each rank sends along the tensor axis in a microbatch\n";
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
    json.attribute("shard", view.topology.groupSize());
    json.attribute("context", m.mesh.size(MeshAxis::Context));
    json.attribute("tensor", view.topology.tensor);
    json.attributeArray("collectives", [&] {
      for (const auto &[key, traffic] : axisTraffics(m))
        json.object([&] {
          json.attribute("op", key.second);
          json.attribute("phase", spell(key.first));
          json.attribute("calls", traffic.calls);
          json.attribute("bytes_sent", traffic.bytes);
        });
    });
  });
}
