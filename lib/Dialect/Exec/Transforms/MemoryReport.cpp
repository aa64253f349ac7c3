// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --emit=memory prints: the spaces, and what stands at their peaks.

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/Support/Origin.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

// The name of a unit, or the ONNX node that a buffer comes from.
static std::string nameOf(Operation *owner) {
  if (auto unit = dyn_cast<fsdp::UnitOp>(owner))
    return unit.getSymName().str();
  Origin origin = getOrigin(owner->getLoc());
  std::string name = origin.path.str();
  if (!origin.node.empty())
    name += (name.empty() ? "" : " ") + origin.node.str();
  if (!origin.op.empty())
    name += " (" + origin.op.str() + ")";
  std::string type;
  llvm::raw_string_ostream(type) << " " << owner->getResult(0).getType();
  return (name.empty() ? "buffer" : name) + type;
}

static void printLive(const Lifetimes &lifetimes, int64_t time,
                      raw_ostream &os) {
  std::vector<unsigned> live;
  for (auto [index, item] : llvm::enumerate(lifetimes.items))
    if (llvm::any_of(item.live, [&](LiveRange range) {
          return range.begin <= time && time < range.end;
        }))
      live.push_back(index);
  llvm::stable_sort(live, [&](unsigned a, unsigned b) {
    return lifetimes.items[a].bytes > lifetimes.items[b].bytes;
  });
  for (unsigned index : live) {
    const PlanItem &item = lifetimes.items[index];
    os << llvm::format("  %12lld bytes at %12lld  ", (long long)item.bytes,
                       (long long)item.offset)
       << nameOf(lifetimes.owners[index]) << '\n';
  }
}

static void printHead(SpacePlanOp plan, raw_ostream &os) {
  double ratio = plan.getLowerBound()
                     ? double(plan.getBytes()) / plan.getLowerBound()
                     : 1.0;
  os << stringifySpace(plan.getSpace()) << ": " << plan.getBytes()
     << " bytes, lower bound " << plan.getLowerBound()
     << llvm::format(" (%.3f)", ratio) << '\n';
}

// Says where the peak is: the function, and the op that runs there.
static void printPeak(Operation *op, raw_ostream &os) {
  if (!op)
    return;
  os << "  at the peak, in " << op->getParentOfType<func::FuncOp>().getSymName()
     << " (" << op->getName() << "):\n";
}

static void printPrivate(ModuleOp module, raw_ostream &os) {
  Lifetimes largest;
  PlanSummary peak;
  func::FuncOp where;
  for (func::FuncOp function : stepFunctions(module)) {
    Lifetimes lifetimes = privateLifetimes(function);
    PlanSummary summary = measureItems(lifetimes.items);
    if (summary.lowerBound > peak.lowerBound) {
      peak = summary;
      largest = std::move(lifetimes);
      where = function;
    }
  }
  if (!where)
    return;
  // privateLifetimes counts from 1.
  printPeak(&*std::next(where.front().begin(), peak.peakTime - 1), os);
  printLive(largest, peak.peakTime, os);
}

void exec::printMemoryPlan(ModuleOp module, raw_ostream &os) {
  for (SpacePlanOp plan : module.getOps<SpacePlanOp>()) {
    printHead(plan, os);
    if (plan.getSpace() == Space::private_) {
      printPrivate(module, os);
      continue;
    }
    Lifetimes lifetimes = plan.getSpace() == Space::params
                              ? paramLifetimes(module)
                              : gradientLifetimes(module);
    PlanSummary peak = measureItems(lifetimes.items);
    if (peak.lowerBound == 0)
      continue;
    printPeak(operationAt(module, peak.peakTime), os);
    printLive(lifetimes, peak.peakTime, os);
  }
}
