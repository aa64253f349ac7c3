// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maximum flow by Dinic's algorithm, for the cut that nn-recompute looks for.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MAXFLOW_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MAXFLOW_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardonnx {

class MaxFlow {
public:
  static constexpr int64_t kInfinite = INT64_C(1) << 60;

  explicit MaxFlow(unsigned nodes) : edgesOf(nodes) {}

  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    edgesOf[from].push_back(edges.size());
    edges.push_back({to, capacity});
    edgesOf[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  void run(unsigned source, unsigned sink) {
    while (level(source, sink)) {
      next.assign(edgesOf.size(), 0);
      while (augment(source, sink) > 0) {
      }
    }
  }

  /// The nodes from which the sink can still be reached: of all minimum cuts
  /// the one nearest to it.
  std::vector<bool> sinkSide(unsigned sink) const {
    std::vector<bool> seen(edgesOf.size(), false);
    std::vector<unsigned> work{sink};
    seen[sink] = true;
    while (!work.empty()) {
      unsigned node = work.back();
      work.pop_back();
      for (unsigned e : edgesOf[node])
        if (edges[e ^ 1].capacity > 0 && !seen[edges[e].to]) {
          seen[edges[e].to] = true;
          work.push_back(edges[e].to);
        }
    }
    return seen;
  }

private:
  struct Edge {
    unsigned to;
    int64_t capacity; // what is left of it
  };

  bool level(unsigned source, unsigned sink) {
    depth.assign(edgesOf.size(), -1);
    depth[source] = 0;
    std::vector<unsigned> queue{source};
    for (std::size_t at = 0; at < queue.size(); ++at)
      for (unsigned e : edgesOf[queue[at]])
        if (edges[e].capacity > 0 && depth[edges[e].to] < 0) {
          depth[edges[e].to] = depth[queue[at]] + 1;
          queue.push_back(edges[e].to);
        }
    return depth[sink] >= 0;
  }

  /// One path of the level graph, found without recursion.
  int64_t augment(unsigned source, unsigned sink) {
    std::vector<unsigned> path;
    unsigned node = source;
    while (node != sink) {
      if (next[node] == edgesOf[node].size()) {
        if (path.empty())
          return 0;
        depth[node] = -1;
        node = edges[path.back() ^ 1].to;
        path.pop_back();
        continue;
      }
      unsigned e = edgesOf[node][next[node]];
      if (edges[e].capacity > 0 && depth[edges[e].to] == depth[node] + 1) {
        path.push_back(e);
        node = edges[e].to;
      } else {
        ++next[node];
      }
    }
    int64_t flow = kInfinite;
    for (unsigned e : path)
      flow = flow < edges[e].capacity ? flow : edges[e].capacity;
    for (unsigned e : path) {
      edges[e].capacity -= flow;
      edges[e ^ 1].capacity += flow;
    }
    return flow;
  }

  std::vector<Edge> edges;
  std::vector<std::vector<unsigned>> edgesOf;
  std::vector<int> depth;
  std::vector<std::size_t> next;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MAXFLOW_H
