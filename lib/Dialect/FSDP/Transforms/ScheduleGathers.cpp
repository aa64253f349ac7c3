// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits each all_gather into a start, some units ahead of need, and a wait.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_SCHEDULEGATHERSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// Where the compute of a unit begins, in forward or in backward; `gather` is
// null when the unit is still gathered there.
struct UnitBegin {
  Operation *where;
  AllGatherOp gather;
};

// Bytes of gathered units at each position of a function.
class GatheredBytes {
public:
  GatheredBytes(func::FuncOp function, const StepOrder &order);

  int64_t of(AllGatherOp gather) const {
    return bytes.lookup(gather.getUnitAttr().getAttr());
  }
  int64_t most(unsigned begin, unsigned end) const {
    return begin == end
               ? 0
               : *std::max_element(live.begin() + begin, live.begin() + end);
  }
  void add(AllGatherOp gather, unsigned begin, unsigned end) {
    for (unsigned at = begin; at != end; ++at)
      live[at] += of(gather);
  }

private:
  llvm::DenseMap<StringAttr, int64_t> bytes;
  SmallVector<int64_t> live;
};

class GatherScheduler {
public:
  explicit GatherScheduler(func::FuncOp function);

  void run(unsigned forwardPrefetch, unsigned backwardPrefetch,
           std::optional<int64_t> budget);

private:
  void collect(AllGatherOp gather);
  void start(ArrayRef<UnitBegin> begins,
             llvm::function_ref<unsigned(unsigned)> aheadOf);
  unsigned lastFree(AllGatherOp gather) const;
  void startAhead(ArrayRef<UnitBegin> begins, unsigned prefetch, StringRef key);
  void startWithin(ArrayRef<UnitBegin> begins, GatheredBytes &gathered,
                   int64_t budget);

  func::FuncOp function;
  Block &body;
  StepOrder order;
  // Of each unit: the positions at which it is freed, and the first op of its
  // backward, which may work before it reads parameters.
  llvm::DenseMap<StringAttr, SmallVector<unsigned>> frees;
  llvm::DenseMap<StringAttr, Operation *> firstOfBackward;
  SmallVector<UnitBegin> forward, backward;
};

GatherScheduler::GatherScheduler(func::FuncOp function)
    : function(function), body(function.getBody().front()), order(function) {
  for (Operation &op : body) {
    if (auto free = dyn_cast<FreeOp>(op))
      frees[getGatheredUnit(free.getGathered()).getAttr()].push_back(
          order.position(free));
    if (FlatSymbolRefAttr unit = nn::unitOf(&op); unit && order.inBackward(&op))
      firstOfBackward.try_emplace(unit.getAttr(), &op);
  }
}

// The first reader of the gathered unit, in forward or in backward.
Operation *firstReader(AllGatherOp gather, const StepOrder &order,
                       bool inBackward) {
  Operation *first = nullptr;
  for (Operation *view : gather->getUsers())
    for (Operation *user : view->getUsers())
      if (order.inBackward(user) == inBackward &&
          (!first || user->isBeforeInBlock(first)))
        first = user;
  return first;
}

void GatherScheduler::collect(AllGatherOp gather) {
  if (firstReader(gather, order, /*inBackward=*/false)) {
    forward.push_back({gather, gather});
    // A unit that stays gathered begins its backward without a gather.
    if (Operation *reader = firstReader(gather, order, /*inBackward=*/true)) {
      Operation *first = firstOfBackward.lookup(gather.getUnitAttr().getAttr());
      backward.push_back({first ? first : reader, nullptr});
    }
  } else {
    backward.push_back({gather, gather});
  }
}

GatheredBytes::GatheredBytes(func::FuncOp function, const StepOrder &order) {
  Block &body = function.getBody().front();
  int64_t kept = 0;
  for (auto unit : function->getParentOfType<ModuleOp>().getOps<UnitOp>()) {
    auto width = [](Type type) { return type.getIntOrFloatBitWidth() / 8; };
    int64_t size = (unit.getLength() + unit.getFrozenLength()) *
                   width(unit.getParamDtype());
    bytes[unit.getSymNameAttr()] = size;
    kept += unit.getKept() ? size : 0;
  }
  live.assign(body.getOperations().size(), kept);
  for (auto gather : body.getOps<AllGatherOp>()) {
    unsigned end = live.size();
    for (Operation *user : gather->getUsers())
      if (isa<FreeOp>(user))
        end = order.position(user);
    add(gather, order.position(gather), end);
  }
}

// The gather of a unit starts where the compute of the unit `aheadOf` says
// begins, behind that unit's own wait.
void GatherScheduler::start(ArrayRef<UnitBegin> begins,
                            llvm::function_ref<unsigned(unsigned)> aheadOf) {
  OpBuilder builder(body.getParentOp()->getContext());
  for (size_t i = 0; i != begins.size(); ++i) {
    if (!begins[i].gather)
      continue;
    Operation *ahead = begins[aheadOf(i)].where;
    bool behindWait = isa<AllGatherOp>(ahead) && ahead != begins[i].where;
    // Starts that share a place keep the order of their waits.
    while (behindWait && isa<AllGatherStartOp>(ahead->getNextNode()))
      ahead = ahead->getNextNode();
    if (behindWait)
      builder.setInsertionPointAfter(ahead);
    else
      builder.setInsertionPoint(ahead);
    AllGatherOp gather = begins[i].gather;
    AllGatherStartOp::create(builder, gather.getLoc(), gather.getUnitAttr());
  }
}

// Where the unit was freed last before it is gathered here; 0 if it was not.
unsigned GatherScheduler::lastFree(AllGatherOp gather) const {
  auto found = frees.find(gather.getUnitAttr().getAttr());
  if (found == frees.end())
    return 0;
  ArrayRef<unsigned> positions = found->second;
  auto next = llvm::lower_bound(positions, order.position(gather));
  return next == positions.begin() ? 0 : *std::prev(next);
}

// From the first unit that prefetches so far ahead that the gathered one is in
// reach: its own distance if it has one. Not before the gathered one was freed
// (a tied weight is gathered again).
void GatherScheduler::startAhead(ArrayRef<UnitBegin> begins, unsigned prefetch,
                                 StringRef key) {
  SmallVector<uint64_t> distances;
  for (const UnitBegin &begin : begins) {
    AllGatherOp gather = begin.gather;
    FlatSymbolRefAttr unit =
        gather ? gather.getUnitAttr() : nn::unitOf(begin.where);
    auto own = dyn_cast_or_null<IntegerAttr>(
        unit ? nn::unitSetting(function, unit.getValue(), key) : Attribute());
    distances.push_back(own ? own.getInt() : prefetch);
  }
  start(begins, [&](unsigned i) {
    unsigned freed = lastFree(begins[i].gather);
    for (unsigned ahead = 0; ahead != i; ++ahead)
      if (ahead + distances[ahead] >= i &&
          order.position(begins[ahead].where) >= freed)
        return ahead;
    return i;
  });
}

// In the order of need, each as early as the budget allows, and not before the
// one that is needed earlier.
void GatherScheduler::startWithin(ArrayRef<UnitBegin> begins,
                                  GatheredBytes &gathered, int64_t budget) {
  SmallVector<unsigned> chosen(begins.size());
  unsigned last = 0;
  for (unsigned i = 0; i != begins.size(); ++i) {
    chosen[i] = i;
    if (!begins[i].gather)
      continue;
    unsigned need = order.position(begins[i].where);
    unsigned freed = lastFree(begins[i].gather);
    for (unsigned ahead = last; ahead != i; ++ahead) {
      unsigned from = order.position(begins[ahead].where);
      if (from < freed ||
          gathered.most(from, need) + gathered.of(begins[i].gather) > budget)
        continue;
      gathered.add(begins[i].gather, from, need);
      chosen[i] = ahead;
      break;
    }
    last = chosen[i];
  }
  start(begins, [&](unsigned i) { return chosen[i]; });
}

void GatherScheduler::run(unsigned forwardPrefetch, unsigned backwardPrefetch,
                          std::optional<int64_t> budget) {
  SmallVector<AllGatherOp> gathers;
  llvm::append_range(gathers, body.getOps<AllGatherOp>());
  if (gathers.empty())
    return;
  for (AllGatherOp gather : gathers)
    collect(gather);
  llvm::stable_sort(backward, [](const UnitBegin &a, const UnitBegin &b) {
    return a.where->isBeforeInBlock(b.where);
  });
  if (budget) {
    GatheredBytes gathered(function, order);
    startWithin(forward, gathered, *budget);
    startWithin(backward, gathered, *budget);
  } else {
    startAhead(forward, forwardPrefetch, nn::kForwardPrefetchKey);
    startAhead(backward, backwardPrefetch, nn::kBackwardPrefetchKey);
  }
  for (AllGatherOp gather : gathers) {
    OpBuilder builder(gather);
    auto wait = AllGatherWaitOp::create(builder, gather.getLoc(),
                                        gather.getType(), gather.getUnitAttr());
    gather.replaceAllUsesWith(wait.getGathered());
    gather.erase();
  }
  // Nothing to overlap with before it: the first one goes to the entry.
  for (auto start : body.getOps<AllGatherStartOp>()) {
    start->moveBefore(&body, body.begin());
    break;
  }
}

struct ScheduleGathersPass
    : public fsdp::impl::ScheduleGathersPassBase<ScheduleGathersPass> {
  using ScheduleGathersPassBase::ScheduleGathersPassBase;

  void runOnOperation() override {
    std::optional<int64_t> budget;
    if (auto attr =
            getOperation()->getAttrOfType<IntegerAttr>(kGatherBudgetAttr))
      budget = attr.getInt();
    for (func::FuncOp function : stepFunctions(getOperation()))
      GatherScheduler(function).run(forwardPrefetch, backwardPrefetch, budget);
  }
};

} // namespace
