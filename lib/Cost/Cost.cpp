// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads parameters, bytes, FLOPs and collectives from the fsdp level.

#include "shardonnx/Cost/Cost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace shardonnx {

int64_t StepCost::trainable() const {
  int64_t sum = 0;
  for (const UnitCost &unit : units)
    sum += unit.trainable;
  return sum;
}

int64_t StepCost::forwardFlops() const {
  int64_t sum = 0;
  for (const UnitCost &unit : units)
    sum += unit.forwardFlops;
  return sum;
}

static int64_t sumSizes(ArrayAttr intervals) {
  int64_t sum = 0;
  for (auto interval : intervals.getAsRange<fsdp::IntervalAttr>())
    sum += interval.getSize();
  return sum;
}

static int64_t bytesOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }

static UnitCost describe(fsdp::UnitOp unit) {
  UnitCost cost;
  cost.name = unit.getSymName().str();
  cost.layout = stringifyLayout(unit.getLayout()).str();
  cost.trainable = sumSizes(unit.getIntervals());
  cost.frozen = sumSizes(unit.getFrozenIntervals());
  cost.length = unit.getLength();
  cost.gatheredBytes = (unit.getLength() + unit.getFrozenLength()) *
                       bytesOf(unit.getParamDtype());
  cost.gradientBytes = unit.getLength() * bytesOf(unit.getReduceDtype());
  return cost;
}

// FLOPs of a function for each unit; ops without one count for the root.
static llvm::StringMap<int64_t> countFlops(func::FuncOp function) {
  llvm::StringMap<int64_t> flops;
  if (!function)
    return flops;
  for (Operation &op : function.getBody().front())
    if (auto counted = dyn_cast<nn::FlopsOpInterface>(op)) {
      FlatSymbolRefAttr unit = nn::unitOf(&op);
      flops[unit ? unit.getValue() : StringRef(fsdp::kRootUnit)] +=
          counted.getFlops();
    }
  return flops;
}

// The collectives of a function in the order of their start.
class CollectiveList {
public:
  explicit CollectiveList(ModuleOp module) {
    for (auto unit : module.getOps<fsdp::UnitOp>())
      units[unit.getSymName()] = unit;
  }
  SmallVector<Collective> of(func::FuncOp function);

private:
  void visit(Operation &op);
  void gather(fsdp::UnitOp unit);
  void reduce(fsdp::UnitOp unit);

  llvm::StringMap<fsdp::UnitOp> units;
  llvm::StringSet<> resharded; // whose next gather is that of the small group
  SmallVector<Collective> list;
};

void CollectiveList::gather(fsdp::UnitOp unit) {
  // Every rank has the whole of a replicated unit.
  if (unit.getLayout() == fsdp::Layout::replicated)
    return;
  UnitCost cost = describe(unit);
  bool again = resharded.erase(unit.getSymName());
  list.push_back({CollectiveKind::AllGather, cost.name, cost.gatheredBytes,
                  again ? int64_t(unit.getReshardGroup()) : 0});
}

void CollectiveList::reduce(fsdp::UnitOp unit) {
  UnitCost cost = describe(unit);
  if (unit.getLayout() == fsdp::Layout::replicated)
    list.push_back({CollectiveKind::AllReduce, cost.name, cost.gradientBytes});
  else
    list.push_back({CollectiveKind::ReduceScatter, cost.name,
                    cost.gradientBytes, /*group=*/0,
                    cost.length * int64_t(sizeof(float))});
}

// Whatever the form, a kept unit is gathered behind its optimizer alone.
void CollectiveList::visit(Operation &op) {
  if (auto free = dyn_cast<fsdp::FreeOp>(op)) {
    if (free.getReshard())
      resharded.insert(fsdp::getGatheredUnit(free.getGathered()).getValue());
  } else if (isa<fsdp::AllGatherOp, fsdp::AllGatherStartOp>(op)) {
    fsdp::UnitOp unit =
        units.lookup(op.getAttrOfType<FlatSymbolRefAttr>("unit").getValue());
    if (!unit.getKept())
      gather(unit);
  } else if (auto optimizer = dyn_cast<fsdp::OptimizerOp>(op)) {
    fsdp::UnitOp unit = units.lookup(optimizer.getUnit());
    if (unit.getKept())
      gather(unit);
  } else if (isa<fsdp::ReduceScatterOp, fsdp::AllReduceOp, fsdp::ReduceStartOp>(
                 op)) {
    reduce(
        units.lookup(op.getAttrOfType<FlatSymbolRefAttr>("unit").getValue()));
  }
}

SmallVector<Collective> CollectiveList::of(func::FuncOp function) {
  list.clear();
  resharded.clear();
  if (function)
    for (Operation &op : function.getBody().front())
      visit(op);
  return list;
}

// Takes the FLOPs of a unit, so that what is left is of no unit.
static int64_t take(llvm::StringMap<int64_t> &flops, StringRef unit) {
  return std::exchange(flops[unit], 0);
}

static int64_t sumOf(const llvm::StringMap<int64_t> &flops) {
  int64_t sum = 0;
  for (const auto &entry : flops)
    sum += entry.second;
  return sum;
}

StepCost estimateStep(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(fsdp::kFirstMicrobatch);
  if (!step)
    step = module.lookupSymbol<func::FuncOp>(fsdp::kMicrobatch);
  auto evaluation = module.lookupSymbol<func::FuncOp>(fsdp::kEval);
  llvm::StringMap<int64_t> forward = countFlops(evaluation);
  llvm::StringMap<int64_t> whole = countFlops(step);

  StepCost cost;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    cost.units.push_back(describe(unit));
    cost.units.back().forwardFlops = take(forward, unit.getSymName());
    cost.units.back().stepFlops = take(whole, unit.getSymName());
  }
  // A module all of whose parameters are ignored is no unit, but computes.
  if (!cost.units.empty()) {
    cost.units.front().forwardFlops += sumOf(forward);
    cost.units.front().stepFlops += sumOf(whole);
  }
  CollectiveList collectives(module);
  cost.microbatch = collectives.of(step);
  auto next = module.lookupSymbol<func::FuncOp>(fsdp::kNextMicrobatch);
  cost.nextMicrobatch = collectives.of(next ? next : step);
  cost.update =
      collectives.of(module.lookupSymbol<func::FuncOp>(fsdp::kUpdate));
  cost.evaluation = collectives.of(evaluation);
  cost.unshardedAccumulation =
      module->hasAttr(fsdp::kUnshardedAccumulationAttr);
  return cost;
}

} // namespace shardonnx
