// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts all_gather, view and free around the uses of parameters.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
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

  void merge(const Window &other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
    uses.append(other.uses);
  }
};

// In order; at first a window for each use, then one for uses that are near.
struct UnitUses {
  SmallVector<Window> forward, backward;
};

StringAttr parameterOf(OpOperand *use) {
  return use->get().getDefiningOp<nn::GetOp>().getParameterAttr().getAttr();
}

class Gatherer {
public:
  Gatherer(func::FuncOp function,
           const llvm::DenseMap<StringAttr, UnitOp> &units)
      : function(function), units(units), order(function) {}

  void run();

private:
  void collect(nn::GetOp get);
  bool isFar(UnitOp unit, const Window &open, ArrayRef<Window> rest) const;
  void join(UnitOp unit, SmallVectorImpl<Window> &windows) const;
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
    UnitUses &ofUnit = uses[unit];
    Operation *last = user;
    if (isAlias(user))
      if (Operation *reader = lastUser(user->getResult(0), order))
        last = reader;
    (order.inBackward(user) ? ofUnit.backward : ofUnit.forward)
        .push_back({order.position(user), order.position(last), {&use}});
  }
}

// Whether the unit is worth freeing between `open` and what follows it: one of
// its parameters is read on both sides (a tied weight) and other units are
// gathered between. Those of a unit inside this one do not count.
bool Gatherer::isFar(UnitOp unit, const Window &open,
                     ArrayRef<Window> rest) const {
  if (!unit.getReshardAfterForward() || rest.front().begin <= open.end)
    return false;
  auto isTied = [&](const Window &window) {
    return llvm::any_of(window.uses, [&](OpOperand *use) {
      return llvm::any_of(open.uses, [&](OpOperand *earlier) {
        return parameterOf(use) == parameterOf(earlier);
      });
    });
  };
  auto between = [&](const Window &window) {
    return open.end < window.begin && window.begin < rest.front().begin;
  };
  std::string inside = (unit.getSymName() + ".").str();
  return llvm::any_of(rest, isTied) && llvm::any_of(uses, [&](auto &entry) {
           UnitOp other = entry.first;
           return other != unit && other.getReshardAfterForward() &&
                  !other.getSymName().starts_with(inside) &&
                  (llvm::any_of(entry.second.forward, between) ||
                   llvm::any_of(entry.second.backward, between));
         });
}

void Gatherer::join(UnitOp unit, SmallVectorImpl<Window> &windows) const {
  llvm::stable_sort(windows, [](const Window &a, const Window &b) {
    return a.begin < b.begin;
  });
  SmallVector<Window> joined;
  for (auto [index, window] : llvm::enumerate(windows))
    if (joined.empty() ||
        isFar(unit, joined.back(), ArrayRef(windows).drop_front(index)))
      joined.push_back(window);
    else
      joined.back().merge(window);
  windows.assign(joined.begin(), joined.end());
}

// Freeing pays only when another unit is gathered before this one's backward.
bool Gatherer::staysGathered(UnitOp unit, const UnitUses &mine) const {
  if (!unit.getReshardAfterForward())
    return true;
  unsigned end = mine.forward.back().end, begin = mine.backward.front().begin;
  if (begin <= end)
    return true;
  auto between = [&](const Window &window) {
    return end < window.begin && window.begin < begin;
  };
  for (const auto &entry : uses) {
    UnitOp other = entry.first;
    if (other != unit && other.getReshardAfterForward() &&
        (llvm::any_of(entry.second.forward, between) ||
         llvm::any_of(entry.second.backward, between)))
      return false;
  }
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
    auto type = cast<RankedTensorType>(wanted);
    if (isa<FloatType>(type.getElementType())) // else packed
      type = type.clone(unit.getParamDtype());
    Value value = ViewOp::create(builder, loc, type, gathered,
                                 cast<FlatSymbolRefAttr>(parameter));
    if (type != wanted) {
      value = nn::CastOp::create(builder, loc, wanted, value);
      nn::setUnit(value.getDefiningOp(), name);
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
  llvm::MapVector<UnitOp, UnitUses> joined = uses;
  for (auto &[unit, unitUses] : joined) {
    join(unit, unitUses.forward);
    join(unit, unitUses.backward);
  }
  uses = joined;
  for (auto &[unit, unitUses] : uses) {
    auto [windows, backward] = unitUses;
    if (!windows.empty() && !backward.empty() &&
        staysGathered(unit, unitUses)) {
      windows.back().merge(backward.front());
      backward.erase(backward.begin());
    }
    windows.append(backward);
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
