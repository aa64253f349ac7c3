// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the text and the JSON of `shardonnx inspect` share.

#include "InspectReport.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx {

Interval cutToParameter(Interval owned, const Manifest::Param &param) {
  int64_t begin = std::max(owned.begin, param.offset);
  int64_t end = std::min(owned.end, param.offset + param.length());
  if (begin >= end)
    return {};
  return {begin - param.offset, end - param.offset};
}

// The collectives of a function in the order of their start. A unit that has
// resharded is gathered by its small group the next time.
static std::vector<Collective> collectivesOf(const Manifest &m,
                                             llvm::StringRef name) {
  std::vector<Collective> list;
  llvm::DenseSet<int64_t> resharded;
  for (const Manifest::Function &function : m.functions) {
    if (function.name != name)
      continue;
    for (const Manifest::Collective &call : function.collectives) {
      if (call.unit < 0)
        continue;
      const Manifest::Unit &unit = m.units[static_cast<size_t>(call.unit)];
      if (call.op == "gather_reshard")
        resharded.insert(call.unit);
      else if (call.op == "gather_start" && unit.sharded)
        list.push_back({CollectiveKind::AllGather, unit.name, unit.sentBytes(),
                        resharded.erase(call.unit) ? unit.reshardGroup : 0});
      else if (call.op == "reduce_start" && unit.sharded)
        list.push_back({CollectiveKind::ReduceScatter, unit.name,
                        unit.gradientBytes(), /*group=*/0, 4 * unit.length});
      else if (call.op == "reduce_start")
        list.push_back(
            {CollectiveKind::AllReduce, unit.name, unit.gradientBytes()});
    }
  }
  return list;
}

StepTraffic stepTraffic(const Manifest &m, const InspectView &view) {
  return trafficOf(collectivesOf(m, "first_microbatch"),
                   collectivesOf(m, "next_microbatch"),
                   collectivesOf(m, "update"), m.unshardedAccumulation,
                   view.topology, view.accumulate);
}

std::string describeLoss(const Manifest &m) {
  std::string labels = "all labels of the step";
  for (const Manifest::Input &input : m.inputs)
    if (input.name == m.loss.input)
      labels += " other than " + std::to_string(input.ignoredLabel);
  switch (m.loss.denominator) {
  case Manifest::Denominator::Labels:
    return "mean over " + labels + ", over all ranks and microbatches";
  case Manifest::Denominator::Sum:
    return "sum over " + labels + ", over all ranks and microbatches";
  case Manifest::Denominator::Elements:
    return "mean over all elements of the step, over all ranks and "
           "microbatches";
  case Manifest::Denominator::Batches:
    return "an opaque scalar of the graph: averaged over ranks and "
           "microbatches";
  }
  return "";
}

std::vector<int64_t> parentsOf(const Manifest &m) {
  std::vector<int64_t> parents;
  for (const Manifest::Unit &unit : m.units) {
    int64_t parent = -1;
    size_t longest = 0;
    for (auto [index, other] : llvm::enumerate(m.units)) {
      llvm::StringRef name = unit.name;
      bool inside = name.consume_front(other.name) && name.starts_with(".");
      bool inRoot = other.name == "root" && unit.name != "root";
      if (inside && other.name.size() > longest) {
        parent = static_cast<int64_t>(index);
        longest = other.name.size();
      } else if (inRoot && longest == 0) {
        parent = static_cast<int64_t>(index);
      }
    }
    parents.push_back(parent);
  }
  return parents;
}

int64_t countParameters(const Manifest::Unit &unit, bool trainable) {
  int64_t count = 0;
  for (const Manifest::Param &param : unit.params)
    if (param.trainable == trainable)
      count += param.elements();
  return count;
}

} // namespace shardonnx
