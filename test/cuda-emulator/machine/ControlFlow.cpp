// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the lanes of a divergent branch meet again: at the branch's immediate
// post-dominator.

#include "Decoder.h"
#include <algorithm>
#include <set>

using namespace shardonnx::emulator;

namespace {

class Graph {
public:
  explicit Graph(const Program &program);
  void findPostDominators();
  /// First instruction of the block that post-dominates the one of `index`.
  uint32_t join(uint32_t index) const;

private:
  struct Node {
    uint32_t begin, end;
    std::vector<uint32_t> next, previous;
  };
  uint32_t intersect(uint32_t a, uint32_t b) const;
  void number(uint32_t root);

  std::vector<Node> nodes; ///< the last one is the exit
  std::vector<uint32_t> nodeAt;
  std::vector<uint32_t> order;      ///< post-order of the reversed graph
  std::vector<uint32_t> position;   ///< of a node in `order`
  std::vector<uint32_t> dominators; ///< kNowhere: not known
};

std::vector<uint32_t> targetsOf(const Program &program, const Instr &instr) {
  if (instr.flow == Flow::Table)
    return program.lists[instr.target];
  return {instr.target};
}

Graph::Graph(const Program &program) {
  uint32_t size = static_cast<uint32_t>(program.code.size());
  std::set<uint32_t> leaders = {0};
  for (uint32_t k = 0; k < size; ++k) {
    const Instr &instr = program.code[k];
    if (instr.flow == Flow::Branch || instr.flow == Flow::Table)
      for (uint32_t target : targetsOf(program, instr))
        leaders.insert(target);
    if (instr.flow != Flow::Next && instr.flow != Flow::Barrier)
      leaders.insert(k + 1);
  }
  nodeAt.resize(size);
  for (auto leader = leaders.begin(); leader != leaders.end(); ++leader) {
    if (*leader >= size)
      continue;
    auto after = std::next(leader);
    uint32_t end = after == leaders.end() ? size : std::min(*after, size);
    for (uint32_t k = *leader; k < end; ++k)
      nodeAt[k] = static_cast<uint32_t>(nodes.size());
    nodes.push_back({*leader, end, {}, {}});
  }
  uint32_t exit = static_cast<uint32_t>(nodes.size());
  nodes.push_back({size, size, {}, {}});
  auto link = [&](uint32_t from, uint32_t to) {
    nodes[from].next.push_back(to);
    nodes[to].previous.push_back(from);
  };
  for (uint32_t n = 0; n < exit; ++n) {
    const Instr &last = program.code[nodes[n].end - 1];
    bool falls = last.flow == Flow::Next || last.flow == Flow::Barrier ||
                 last.guard != kNowhere;
    if (last.flow == Flow::Branch || last.flow == Flow::Table)
      for (uint32_t target : targetsOf(program, last))
        link(n, target < size ? nodeAt[target] : exit);
    if (last.flow == Flow::Exit)
      link(n, exit);
    if (falls)
      link(n, nodes[n].end < size ? nodeAt[nodes[n].end] : exit);
  }
}

/// Post-order from the exit backwards, without recursion.
void Graph::number(uint32_t root) {
  std::vector<std::pair<uint32_t, size_t>> stack = {{root, 0}};
  std::vector<bool> seen(nodes.size());
  seen[root] = true;
  position.assign(nodes.size(), kNowhere);
  while (!stack.empty()) {
    auto &[node, child] = stack.back();
    if (child < nodes[node].previous.size()) {
      uint32_t next = nodes[node].previous[child++];
      if (!seen[next]) {
        seen[next] = true;
        stack.emplace_back(next, 0);
      }
      continue;
    }
    position[node] = static_cast<uint32_t>(order.size());
    order.push_back(node);
    stack.pop_back();
  }
}

uint32_t Graph::intersect(uint32_t a, uint32_t b) const {
  while (a != b) {
    while (position[a] < position[b])
      a = dominators[a];
    while (position[b] < position[a])
      b = dominators[b];
  }
  return a;
}

/// Cooper, Harvey and Kennedy's algorithm on the reversed graph.
void Graph::findPostDominators() {
  uint32_t exit = static_cast<uint32_t>(nodes.size() - 1);
  number(exit);
  dominators.assign(nodes.size(), kNowhere);
  dominators[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (*node == exit)
        continue;
      uint32_t best = kNowhere;
      for (uint32_t next : nodes[*node].next)
        if (position[next] != kNowhere && dominators[next] != kNowhere)
          best = best == kNowhere ? next : intersect(best, next);
      if (best != dominators[*node]) {
        dominators[*node] = best;
        changed = true;
      }
    }
  }
}

uint32_t Graph::join(uint32_t index) const {
  uint32_t dominator = dominators[nodeAt[index]];
  if (dominator == kNowhere || dominator == nodes.size() - 1)
    return kNowhere;
  return nodes[dominator].begin;
}

} // namespace

void shardonnx::emulator::findJoins(Program &program) {
  Graph graph(program);
  graph.findPostDominators();
  for (uint32_t k = 0; k < program.code.size(); ++k) {
    Instr &instr = program.code[k];
    if (instr.flow == Flow::Branch || instr.flow == Flow::Table)
      instr.join = graph.join(k);
  }
}
