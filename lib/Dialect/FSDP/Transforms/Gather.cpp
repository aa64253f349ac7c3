// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts all_gather, view and free around the uses of parameters.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_GATHERPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// A stretch of the function in which a unit is gathered.
struct Window {
  unsigned begin = UINT_MAX, end = 0; // positions of the first and last reader
  SmallVector<OpOperand *> uses;

  bool empty() const { return uses.empty(); }
  void merge(const Window &other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
    uses.append(other.uses);
  }
};

struct UnitUses {
  Window forward, backward;
};

class Gatherer {
public:
  Gatherer(func::FuncOp function,
           const llvm::DenseMap<StringAttr, UnitOp> &units)
      : function(function), units(units), order(function) {}

  void run();

private:
  void collect(nn::GetOp get);
  bool staysGathered(UnitOp unit, const UnitUses &uses) const;
  void gather(UnitOp unit, const Window &window, bool reshard);

  func::FuncOp function;
  const llvm::DenseMap<StringAttr, UnitOp> &units;
  StepOrder order;
  llvm::MapVector<UnitOp, UnitUses> uses;
};

void Gatherer::collect(nn::GetOp get) {
  UnitOp unit = units.lookup(get.getParameterAttr().getAttr());
  for (OpOperand &use : get->getUses()) {
    Operation *user = use.getOwner();
    Window &window =
        order.inBackward(user) ? uses[unit].backward : uses[unit].forward;
    Operation *last = user;
    if (isAlias(user))
      if (Operation *reader = lastUser(user->getResult(0), order))
        last = reader;
    window.begin = std::min(window.begin, order.position(user));
    window.end = std::max(window.end, order.position(last));
    window.uses.push_back(&use);
  }
}

// Freeing pays only when another unit is gathered before this one's backward.
bool Gatherer::staysGathered(UnitOp unit, const UnitUses &mine) const {
  if (!unit.getReshardAfterForward())
    return true;
  if (mine.backward.begin <= mine.forward.end)
    return true;
  auto between = [&](const Window &window) {
    return !window.empty() && mine.forward.end < window.begin &&
           window.begin < mine.backward.begin;
  };
  for (auto [other, theirs] : uses)
    if (other != unit && other.getReshardAfterForward() &&
        (between(theirs.forward) || between(theirs.backward)))
      return false;
  return true;
}

void Gatherer::gather(UnitOp unit, const Window &window, bool reshard) {
  OpBuilder builder(order.at(window.begin));
  Location loc = unit.getLoc();
  auto name = FlatSymbolRefAttr::get(unit.getSymNameAttr());
  auto gathered = AllGatherOp::create(
      builder, loc, GatheredType::get(unit.getContext()), name);
  // Views in the order of the unit, one for each parameter and type.
  llvm::MapVector<std::pair<Attribute, Type>, SmallVector<OpOperand *>> readers;
  for (ArrayAttr section : {unit.getIntervals(), unit.getFrozenIntervals()})
    for (auto interval : section.getAsRange<IntervalAttr>())
      for (OpOperand *use : window.uses)
        if (auto get = use->get().getDefiningOp<nn::GetOp>();
            get && get.getParameterAttr() == interval.getParameter())
          readers[{interval.getParameter(), get.getType()}].push_back(use);
  for (auto &[key, operands] : readers) {
    auto [parameter, wanted] = key;
    auto type = cast<RankedTensorType>(wanted).clone(unit.getParamDtype());
    Value value = ViewOp::create(builder, loc, type, gathered,
                                 cast<FlatSymbolRefAttr>(parameter));
    if (type != wanted) {
      value = nn::CastOp::create(builder, loc, wanted, value);
      value.getDefiningOp()->setAttr(nn::kUnitAttr, name);
    }
    for (OpOperand *use : operands)
      use->set(value);
  }
  builder.setInsertionPointAfter(order.at(window.end));
  FreeOp::create(builder, loc, gathered, reshard);
}

void Gatherer::run() {
  SmallVector<nn::GetOp> gets;
  llvm::append_range(gets, function.getBody().front().getOps<nn::GetOp>());
  for (nn::GetOp get : gets)
    collect(get);
  for (auto &[unit, unitUses] : uses) {
    SmallVector<Window, 2> windows;
    for (const Window &window : {unitUses.forward, unitUses.backward})
      if (!window.empty())
        windows.push_back(window);
    if (windows.size() == 2 && staysGathered(unit, unitUses)) {
      windows[0].merge(windows[1]);
      windows.pop_back();
    }
    for (const Window &window : windows) {
      bool again = &window != &windows.back();
      gather(unit, window, again && unit.getReshardGroup() != 0);
    }
  }
  for (nn::GetOp get : gets)
    get.erase();
}

struct GatherPass : public fsdp::impl::GatherPassBase<GatherPass> {
  void runOnOperation() override {
    llvm::DenseMap<StringAttr, UnitOp> units = unitsByParameter(getOperation());
    for (func::FuncOp function : stepFunctions(getOperation()))
      Gatherer(function, units).run();
  }
};

} // namespace
