// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads parameters, bytes, FLOPs and collectives from the fsdp level.

#include "shardonnx/Cost/Cost.h"
#include "shardonnx/runtime/Layout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shardonnx {

int64_t Collective::bytesSent(int64_t ranks) const {
  int64_t once = bytes / ranks * (ranks - 1);
  return kind == CollectiveKind::AllReduce ? 2 * once : once;
}

int64_t UnitCost::stateBytes(int64_t ranks, int64_t states) const {
  if (layout == "replicated")
    ranks = 1;
  constexpr int64_t kMasterAndGradient = 2;
  int64_t words = (kMasterAndGradient + states) * sliceLength(length, ranks);
  return words * int64_t(sizeof(float)) + (frozenBytes + ranks - 1) / ranks;
}

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
  cost.frozenBytes = unit.getFrozenLength() * bytesOf(unit.getParamDtype());
  cost.gatheredBytes =
      unit.getLength() * bytesOf(unit.getParamDtype()) + cost.frozenBytes;
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
      auto unit = op.getAttrOfType<FlatSymbolRefAttr>(nn::kUnitAttr);
      flops[unit ? unit.getValue() : StringRef(fsdp::kRootUnit)] +=
          counted.getFlops();
    }
  return flops;
}

static SmallVector<Collective>
listCollectives(func::FuncOp function,
                const llvm::StringMap<const UnitCost *> &units) {
  SmallVector<Collective> list;
  if (!function)
    return list;
  auto add = [&](CollectiveKind kind, StringRef name) {
    const UnitCost *unit = units.lookup(name);
    bool isGather = kind == CollectiveKind::AllGather;
    // Every rank has the whole of a replicated unit.
    if (isGather && unit->layout == "replicated")
      return;
    list.push_back({kind, unit->name,
                    isGather ? unit->gatheredBytes : unit->gradientBytes});
  };
  for (Operation &op : function.getBody().front()) {
    if (auto gather = dyn_cast<fsdp::AllGatherOp>(op))
      add(CollectiveKind::AllGather, gather.getUnit());
    else if (auto start = dyn_cast<fsdp::AllGatherStartOp>(op))
      add(CollectiveKind::AllGather, start.getUnit());
    else if (auto reduce = dyn_cast<fsdp::ReduceScatterOp>(op))
      add(CollectiveKind::ReduceScatter, reduce.getUnit());
    else if (auto reduce = dyn_cast<fsdp::AllReduceOp>(op))
      add(CollectiveKind::AllReduce, reduce.getUnit());
    else if (auto start = dyn_cast<fsdp::ReduceStartOp>(op))
      add(units.lookup(start.getUnit())->layout == "replicated"
              ? CollectiveKind::AllReduce
              : CollectiveKind::ReduceScatter,
          start.getUnit());
  }
  return list;
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
    cost.units.back().forwardFlops = forward.lookup(unit.getSymName());
    cost.units.back().stepFlops = whole.lookup(unit.getSymName());
  }
  llvm::StringMap<const UnitCost *> units;
  for (const UnitCost &unit : cost.units)
    units[unit.name] = &unit;
  cost.microbatch = listCollectives(step, units);
  cost.evaluation = listCollectives(evaluation, units);
  return cost;
}

} // namespace shardonnx
