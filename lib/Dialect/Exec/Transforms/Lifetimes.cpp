// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lifetimes from the order of ops.

#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"

#include "shardonnx/runtime/Layout.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shardonnx::exec {

SmallVector<func::FuncOp> stepFunctions(ModuleOp module) {
  return llvm::to_vector(module.getOps<func::FuncOp>());
}

static bool isRoot(Operation *op, Space space) {
  if (auto buffer = dyn_cast_or_null<BufferOp>(op))
    return buffer.getSpace() == space;
  auto alloc = dyn_cast_or_null<AllocOp>(op);
  return alloc && (alloc.getHost() ? Space::host : Space::private_) == space;
}

Lifetimes bufferLifetimes(func::FuncOp function, Space space) {
  Lifetimes result;
  llvm::DenseMap<Operation *, unsigned> indices;
  int64_t time = 0;
  for (Operation &op : function.front()) {
    ++time;
    if (isRoot(&op, space)) {
      auto type = cast<MemRefType>(op.getResult(0).getType());
      PlanItem item;
      item.bytes = spanOf(type) * elementBytes(type.getElementType());
      if (auto buffer = dyn_cast<BufferOp>(op))
        item.offset = buffer.getOffset();
      indices[&op] = result.items.size();
      result.owners.push_back(&op);
      result.items.push_back(item);
    }
    if (isa<ViewOp>(op))
      continue;
    for (Value operand : op.getOperands()) {
      Operation *root = rootOf(operand).getDefiningOp();
      if (!isRoot(root, space))
        continue;
      auto &live = result.items[indices.lookup(root)].live;
      if (live.empty())
        live.push_back({time, time + 1});
      live.back().end = time + 1;
    }
  }
  return result;
}

namespace {

// Follows units through the functions of a step on one time axis.
class UnitScan {
public:
  explicit UnitScan(ModuleOp module) : module(module) {
    for (auto unit : module.getOps<fsdp::UnitOp>())
      states.insert({unit.getSymNameAttr(), State{unit, {}, false, -1}});
  }
  Lifetimes params();
  Lifetimes gradients();

private:
  struct State {
    fsdp::UnitOp unit;
    SmallVector<LiveRange, 1> live;
    bool crosses;  // a function's border while gathered
    int64_t since; // -1: not live
    bool mentioned = false;
  };
  State *find(FlatSymbolRefAttr unit) {
    auto found = states.find(unit.getAttr());
    return found == states.end() ? nullptr : &found->second;
  }
  void scanParams(Operation &op, int64_t begin, int64_t time);
  void endParams(func::FuncOp function, int64_t begin, int64_t end);
  void liveThrough();
  void liveAlways(State &state, int64_t end);
  Lifetimes take(function_ref<int64_t(fsdp::UnitOp)> bytes,
                 StringRef offsetAttr);

  ModuleOp module;
  llvm::MapVector<StringAttr, State> states;
  // Functions in which a unit that crosses must be kept from end to end.
  SmallVector<std::pair<State *, LiveRange>> idle;
};

void UnitScan::scanParams(Operation &op, int64_t begin, int64_t time) {
  if (auto start = dyn_cast<GatherStartOp>(op)) {
    if (State *state = find(start.getUnitAttr())) {
      state->mentioned = true;
      if (state->since < 0)
        state->since = time;
    }
    return;
  }
  auto needLive = [&](FlatSymbolRefAttr unit) -> State * {
    State *state = find(unit);
    if (state && state->since < 0) {
      state->crosses = true;
      state->since = begin;
    }
    if (state)
      state->mentioned = true;
    return state;
  };
  auto freed = [&](FlatSymbolRefAttr unit) {
    if (State *state = needLive(unit)) {
      state->live.push_back({state->since, time + 1});
      state->since = -1;
    }
  };
  if (auto wait = dyn_cast<GatherWaitOp>(op))
    needLive(wait.getUnitAttr());
  else if (auto free = dyn_cast<GatherFreeOp>(op))
    freed(free.getUnitAttr());
  else if (auto reshard = dyn_cast<GatherReshardOp>(op))
    freed(reshard.getUnitAttr());
}

void UnitScan::endParams(func::FuncOp function, int64_t begin, int64_t end) {
  // An evaluation may run between any two others; what it overwrites of early
  // units is gathered again.
  bool between = function.getSymName() == fsdp::kEval;
  for (auto &[name, state] : states) {
    if (state.since >= 0) {
      state.crosses = true;
      state.live.push_back({state.since, end});
    } else if (!state.unit.getEarly() && (!state.mentioned || between)) {
      idle.push_back({&state, {begin, end}});
    }
    state.since = -1;
    state.mentioned = false;
  }
}

void UnitScan::liveThrough() {
  for (auto &[state, range] : idle) {
    if (!state->crosses)
      continue;
    llvm::erase_if(state->live, [range = range](LiveRange live) {
      return live.begin >= range.begin && live.end <= range.end;
    });
    state->live.push_back(range);
  }
}

void UnitScan::liveAlways(State &state, int64_t end) {
  if (!state.live.empty())
    state.live = {{0, end}};
}

Lifetimes UnitScan::params() {
  int64_t time = 0;
  for (func::FuncOp function : stepFunctions(module)) {
    int64_t begin = time;
    for (Operation &op : function.front())
      scanParams(op, begin, time++);
    endParams(function, begin, time);
  }
  liveThrough();
  for (auto &[name, state] : states)
    if (state.unit.getKept())
      liveAlways(state, time);
  return take(paramBytes, kParamOffsetAttr);
}

Lifetimes UnitScan::gradients() {
  int64_t time = 0;
  for (func::FuncOp function : stepFunctions(module)) {
    for (Operation &op : function.front()) {
      if (auto acquire = dyn_cast<GradAcquireOp>(op)) {
        if (State *state = find(acquire.getUnitAttr()))
          state->since = time;
      } else if (auto wait = dyn_cast<ReduceWaitOp>(op)) {
        State *state = find(wait.getUnitAttr());
        if (state && state->since >= 0)
          state->live.push_back({std::exchange(state->since, -1), time + 1});
      }
      ++time;
    }
    for (auto &[name, state] : states)
      if (state.since >= 0)
        state.live.push_back({std::exchange(state.since, -1), time});
  }
  if (module->hasAttr(fsdp::kUnshardedAccumulationAttr))
    for (auto &[name, state] : states)
      liveAlways(state, time);
  return take(gradientBytes, kGradOffsetAttr);
}

Lifetimes UnitScan::take(function_ref<int64_t(fsdp::UnitOp)> bytes,
                         StringRef offsetAttr) {
  Lifetimes result;
  for (auto &[name, state] : states) {
    PlanItem item;
    item.bytes = bytes(state.unit);
    item.live = state.live;
    llvm::sort(item.live,
               [](LiveRange a, LiveRange b) { return a.begin < b.begin; });
    if (auto offset = state.unit->getAttrOfType<IntegerAttr>(offsetAttr))
      item.offset = offset.getInt();
    result.owners.push_back(state.unit);
    result.items.push_back(item);
  }
  return result;
}

} // namespace

Lifetimes paramLifetimes(ModuleOp module) { return UnitScan(module).params(); }

Lifetimes gradientLifetimes(ModuleOp module) {
  return UnitScan(module).gradients();
}

llvm::StringLiteral placeAttr(PlacedGradients placed) {
  return placed == PlacedGradients::Whole ? kGradPlaceAttr : kSlicePlaceAttr;
}

// The unit whose gradients come to lie in their place with this op.
static FlatSymbolRefAttr unitPlacedBy(Operation &op, PlacedGradients placed) {
  if (placed == PlacedGradients::Whole) {
    auto acquire = dyn_cast<GradAcquireOp>(op);
    return acquire ? acquire.getUnitAttr() : FlatSymbolRefAttr();
  }
  auto start = dyn_cast<ReduceStartOp>(op);
  return start ? start.getUnitAttr() : FlatSymbolRefAttr();
}

// Slices of any number of ranks are cut where blocks of 256 elements are, or at
// finer steps.
static int64_t placedBytes(fsdp::UnitOp unit, PlacedGradients placed) {
  if (placed == PlacedGradients::Whole)
    return gradientBytes(unit);
  bool sharded = unit.getLayout() == fsdp::Layout::sharded;
  return sharded ? sliceLength(unit.getLength(), /*ranks=*/2, kStateBlock) *
                       int64_t(sizeof(float))
                 : 0;
}

StepLifetimes privateLifetimesOfStep(ModuleOp module, PlacedGradients placed) {
  StepLifetimes result;
  llvm::MapVector<StringAttr, int64_t> since;
  int64_t begin = 0;
  for (StringRef name : {fsdp::kFirstMicrobatch, fsdp::kUpdate}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function)
      continue;
    Lifetimes lifetimes = bufferLifetimes(function, Space::private_);
    for (PlanItem &item : lifetimes.items)
      for (LiveRange &range : item.live)
        range = {begin + range.begin, begin + range.end};
    llvm::append_range(result.owners, lifetimes.owners);
    llvm::append_range(result.items, lifetimes.items);
    for (Operation &op : function.front()) {
      ++begin; // as bufferLifetimes counts
      if (FlatSymbolRefAttr unit = unitPlacedBy(op, placed))
        since.insert({unit.getAttr(), begin});
    }
    ++begin;
  }
  result.buffers = result.items.size();
  SymbolTable symbols(module);
  for (auto [name, time] : since) {
    auto unit = symbols.lookup<fsdp::UnitOp>(name);
    PlanItem item;
    item.bytes = placedBytes(unit, placed);
    if (item.bytes == 0)
      continue;
    item.live = {{time, begin}};
    if (auto place = unit->getAttrOfType<IntegerAttr>(placeAttr(placed)))
      item.offset = place.getInt();
    result.owners.push_back(unit);
    result.items.push_back(item);
  }
  return result;
}

Operation *operationAt(ModuleOp module, int64_t time) {
  for (func::FuncOp function : stepFunctions(module))
    for (Operation &op : function.front())
      if (time-- == 0)
        return &op;
  return nullptr;
}

int64_t frozenOffsetBytes(fsdp::UnitOp unit) {
  return unit.getLength() * elementBytes(unit.getParamDtype());
}

int64_t paramBytes(fsdp::UnitOp unit) {
  return (unit.getLength() + unit.getFrozenLength()) *
         elementBytes(unit.getParamDtype());
}

int64_t gradientBytes(fsdp::UnitOp unit) {
  return unit.getLength() * elementBytes(unit.getReduceDtype());
}

} // namespace shardonnx::exec
