// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a planned module for people: see Describe.h.

#include "shardonnx/Dialect/Exec/Transforms/Describe.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Support/Origin.h"

using namespace mlir;

namespace shardonnx::exec {

std::string nameOf(Operation *owner) {
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

static std::vector<LiveBuffer> liveAt(const Lifetimes &lifetimes,
                                      int64_t time) {
  std::vector<LiveBuffer> live;
  for (auto [owner, item] : llvm::zip(lifetimes.owners, lifetimes.items))
    if (llvm::any_of(item.live, [&](LiveRange range) {
          return range.begin <= time && time < range.end;
        }))
      live.push_back({nameOf(owner), item.bytes, item.offset});
  llvm::stable_sort(live, [](const LiveBuffer &a, const LiveBuffer &b) {
    return a.bytes > b.bytes;
  });
  return live;
}

static std::string placeOf(Operation *op) {
  if (!op)
    return "";
  std::string place = op->getParentOfType<func::FuncOp>().getSymName().str() +
                      " (" + op->getName().getStringRef().str();
  std::string origin = describeOrigin(op->getLoc());
  return place + (origin.empty() ? ")" : ", " + origin + ")");
}

// Functions share nothing but units: the peak is that of the largest.
static void describeBuffers(ModuleOp module, SpaceReport &report) {
  int64_t largest = 0;
  for (func::FuncOp function : stepFunctions(module)) {
    Lifetimes lifetimes = bufferLifetimes(function, report.space);
    PlanSummary summary = measureItems(lifetimes.items);
    if (summary.lowerBound <= largest)
      continue;
    largest = summary.lowerBound;
    // Lifetimes count from 1.
    report.peakAt =
        placeOf(&*std::next(function.front().begin(), summary.peakTime - 1));
    report.live = liveAt(lifetimes, summary.peakTime);
  }
}

static void describeUnits(ModuleOp module, const Lifetimes &lifetimes,
                          SpaceReport &report) {
  PlanSummary peak = measureItems(lifetimes.items);
  if (peak.lowerBound == 0)
    return;
  report.peakAt = placeOf(operationAt(module, peak.peakTime));
  report.live = liveAt(lifetimes, peak.peakTime);
}

std::vector<SpaceReport> describeSpaces(ModuleOp module) {
  std::vector<SpaceReport> reports;
  for (SpacePlanOp plan : module.getOps<SpacePlanOp>()) {
    SpaceReport report;
    report.space = plan.getSpace();
    report.bytes = plan.getBytes();
    report.lowerBound = plan.getLowerBound();
    if (report.space == Space::private_ || report.space == Space::host)
      describeBuffers(module, report);
    else
      describeUnits(module,
                    report.space == Space::params ? paramLifetimes(module)
                                                  : gradientLifetimes(module),
                    report);
    reports.push_back(std::move(report));
  }
  return reports;
}

llvm::json::Object spacesToJson(ModuleOp module) {
  llvm::json::Object spaces;
  for (SpaceReport &report : describeSpaces(module)) {
    llvm::json::Array live;
    for (const LiveBuffer &buffer : report.live)
      live.push_back(llvm::json::Object{
          {"name", llvm::json::fixUTF8(buffer.name)}, {"bytes", buffer.bytes}});
    StringRef name =
        report.space == Space::params ? "gather" : stringifySpace(report.space);
    spaces[name] =
        llvm::json::Object{{"bytes", report.bytes},
                           {"lower_bound_bytes", report.lowerBound},
                           {"peak_at", llvm::json::fixUTF8(report.peakAt)},
                           {"live", std::move(live)}};
  }
  return spaces;
}

Work workOf(Operation *op) {
  Work work;
  if (auto call = dyn_cast<RuntimeCallOpInterface>(op))
    work.flops = call.getExecutedFlops();
  else if (!isa<LaunchOp>(op))
    return work;
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<MemRefType>(operand.getType()))
      work.bytes += double(spanOf(type) * elementBytes(type.getElementType()));
  return work;
}

// The call with the work since the call before it.
static void takeWork(Work &work, llvm::json::Object &call) {
  if (work.flops > 0)
    call["flops"] = work.flops;
  if (work.bytes > 0)
    call["bytes"] = work.bytes;
  work = {};
}

/// Of a copy between a rank and its host memory, which one and how large.
static void describeCopy(Operation *op, llvm::json::Object &call) {
  auto copy = op->getAttrOfType<IntegerAttr>("copy");
  if (!copy)
    return;
  call["copy"] = copy.getInt();
  if (isa<OffloadStartOp, ReloadStartOp>(op))
    call["copied_bytes"] = int64_t(bytesOf(op->getOperand(0)));
}

llvm::json::Array functionsToJson(ModuleOp module, LaunchTable *launches) {
  llvm::DenseMap<StringAttr, int64_t> indices;
  for (auto unit : module.getOps<fsdp::UnitOp>())
    indices.insert({unit.getSymNameAttr(), indices.size()});
  llvm::json::Array functions;
  for (func::FuncOp function : stepFunctions(module)) {
    llvm::json::Array calls;
    Work work;
    for (Operation &op : function.front()) {
      Work more = workOf(&op);
      work.flops += more.flops;
      work.bytes += more.bytes;
      if (!isCommonCall(&op))
        continue;
      llvm::json::Object call{{"op", op.getName().stripDialect()}};
      if (auto unit = op.getAttrOfType<FlatSymbolRefAttr>("unit"))
        call["unit"] = indices.lookup(unit.getAttr());
      describeCopy(&op, call);
      takeWork(work, call);
      calls.push_back(std::move(call));
    }
    llvm::json::Object described{{"name", function.getSymName()},
                                 {"collectives", std::move(calls)}};
    if (launches) {
      described["launches"] = launches->runsOf(function);
      addTimeline(function, *launches, described);
    }
    takeWork(work, described);
    functions.push_back(std::move(described));
  }
  return functions;
}

} // namespace shardonnx::exec
