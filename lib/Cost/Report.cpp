// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cost of a step as text and as JSON.

#include "shardonnx/Cost/Cost.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace shardonnx {

static void printCollectives(StringRef title, ArrayRef<Collective> collectives,
                             llvm::raw_ostream &out) {
  out << title << "\n";
  for (const Collective &collective : collectives)
    out << llvm::formatv("  {0,-16}{1,-32}{2,14} bytes\n",
                         stringify(collective.kind), collective.unit,
                         collective.bytes);
}

static StepTraffic trafficOf(const StepCost &cost, const StepShape &shape) {
  return trafficOf(cost.microbatch, cost.nextMicrobatch, cost.update,
                   cost.unshardedAccumulation, shape.ranks, shape.microbatches);
}

void print(const StepCost &cost, const StepShape &shape,
           llvm::raw_ostream &out) {
  constexpr const char *kRow = "{0,-32}{1,-12}{2,12}{3,10}{4,16}{5,16}{6,16}\n";
  out << llvm::formatv(kRow, "unit", "layout", "trainable", "frozen",
                       "gathered bytes", "forward FLOPs", "step FLOPs");
  for (const UnitCost &unit : cost.units)
    out << llvm::formatv(kRow, unit.name, unit.layout, unit.trainable,
                         unit.frozen, unit.gatheredBytes, unit.forwardFlops,
                         unit.stepFlops);
  out << llvm::formatv("model FLOPs of a microbatch: {0}\n", cost.modelFlops());
  printCollectives("collectives of a microbatch, in order:", cost.microbatch,
                   out);
  if (!cost.update.empty())
    printCollectives("collectives of an update, in order:", cost.update, out);
  printCollectives("collectives of an evaluation, in order:", cost.evaluation,
                   out);
  StepTraffic traffic = trafficOf(cost, shape);
  out << llvm::formatv("bytes that each of {0} ranks sends in a step:\n"
                       "  {1,-16}{2}\n  {3,-16}{4}\n  {5,-16}{6}\n",
                       shape.ranks.ranks, "all_gather", traffic.allGather,
                       "reduce_scatter", traffic.reduceScatter, "all_reduce",
                       traffic.allReduce);
}

static llvm::json::Array toJSON(ArrayRef<Collective> collectives) {
  llvm::json::Array list;
  for (const Collective &collective : collectives)
    list.push_back(llvm::json::Object{{"kind", stringify(collective.kind)},
                                      {"unit", collective.unit},
                                      {"bytes", collective.bytes}});
  return list;
}

llvm::json::Value toJSON(const StepCost &cost, const StepShape &shape) {
  StepTraffic traffic = trafficOf(cost, shape);
  llvm::json::Array units;
  for (const UnitCost &unit : cost.units)
    units.push_back(llvm::json::Object{{"name", unit.name},
                                       {"layout", unit.layout},
                                       {"trainable", unit.trainable},
                                       {"frozen", unit.frozen},
                                       {"length", unit.length},
                                       {"gathered_bytes", unit.gatheredBytes},
                                       {"gradient_bytes", unit.gradientBytes},
                                       {"forward_flops", unit.forwardFlops},
                                       {"step_flops", unit.stepFlops}});
  return llvm::json::Object{
      {"units", std::move(units)},
      {"model_flops", cost.modelFlops()},
      {"collectives",
       llvm::json::Object{{"microbatch", toJSON(cost.microbatch)},
                          {"update", toJSON(cost.update)},
                          {"evaluation", toJSON(cost.evaluation)}}},
      {"bytes_sent",
       llvm::json::Object{{"all_gather", traffic.allGather},
                          {"reduce_scatter", traffic.reduceScatter},
                          {"all_reduce", traffic.allReduce}}}};
}

} // namespace shardonnx
