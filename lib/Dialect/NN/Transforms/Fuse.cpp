// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-fuse: groups of ops become nn.fused ops.

#include "FusedBuilder.h"
#include "FusionGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include <queue>

namespace shardonnx::nn {
#define GEN_PASS_DEF_FUSEPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fusion;

/// A column kernel reads at most this many whole tensors, each from memory once
/// per block of columns; beyond it, the summand is worth storing.
static constexpr unsigned kMaxColumnInputs = 4;
/// A kernel over rows has at most so many sums of columns besides, and rows of
/// so many elements: a thread has the sums in registers beside its row.
static constexpr unsigned kMaxSumsBesideRows = 2;
static constexpr int64_t kLongestRowBesideSums = 8192;

namespace {

/// Sums over the same rows that one kernel takes together, and the ops that it
/// computes again for them.
struct ColumnGroup {
  SmallVector<Operation *> sums;
  llvm::SmallSetVector<Operation *, 8> cone;
  llvm::SmallSetVector<Value, 4> tensors; // read in full
  RowSpace space;
  Attribute unit;
};

class BlockFuser {
public:
  BlockFuser(Block &block, bool sumsBesideRows)
      : block(block), graph(block), sumsBesideRows(sumsBesideRows) {}

  LogicalResult run();

private:
  void formColumns();
  bool joinRows(Operation *sum);
  bool mayHoldSum(unsigned id) const;
  static FailureOr<Shape> domainOfColumns(const ColumnGroup &group);
  ColumnGroup columnGroupOf(Operation *sum);
  bool isStored(Operation *op) const;
  bool mayJoin(const ColumnGroup &a, const ColumnGroup &b) const;
  SmallVector<unsigned> parts() const;
  void breakCycles();
  void buildColumns(const ColumnGroup &group);
  void buildRows(unsigned id);
  void buildLeftOvers();
  void replace(ArrayRef<Operation *> roots, ArrayRef<int64_t> domain,
               nn::FusedKind kind, ArrayRef<Operation *> members,
               llvm::function_ref<bool(Operation *)> takes, unsigned position);
  LogicalResult sort();

  Block &block;
  FusionGraph graph;
  bool sumsBesideRows;
  std::vector<ColumnGroup> columns;
  /// Where an op wants to stand: a position of the original block.
  llvm::DenseMap<Operation *, unsigned> keys;
  SmallVector<Operation *> became; // by original position, null if erased
};

} // namespace

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

/// Will the op's result be in memory anyway, for an op outside its row group?
bool BlockFuser::isStored(Operation *op) const {
  std::optional<unsigned> id = graph.groupOf(op);
  if (!id)
    return true;
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    if (isColumnSum(user))
      return false;
    if (graph.groupOf(user) != id)
      return true;
    return isa<nn::ReshapeOp>(user) && isStored(user);
  });
}

/// The domain over which one kernel computes all sums and what they take along:
/// one that their own shapes need, or else those in front of reshapes, too.
FailureOr<Shape> BlockFuser::domainOfColumns(const ColumnGroup &group) {
  SmallVector<Operation *> ops(group.sums);
  ops.append(group.cone.begin(), group.cone.end());
  SmallVector<ArrayRef<int64_t>> shapes, sources;
  for (Operation *op : ops) {
    shapes.push_back(domainOf(op));
    if (isRowReshape(op))
      sources.push_back(nn::shapeOf(op->getOperand(0)));
  }
  auto domainOfAll = [&]() -> FailureOr<Shape> {
    FailureOr<Shape> domain = refineDomains(shapes, group.space.length);
    if (failed(domain) || !llvm::all_of(ops, [&](Operation *op) {
          return runsOver(op, *domain);
        }))
      return failure();
    return domain;
  };
  FailureOr<Shape> domain = domainOfAll();
  if (succeeded(domain))
    return domain;
  shapes.append(sources);
  return domainOfAll();
}

ColumnGroup BlockFuser::columnGroupOf(Operation *sum) {
  ColumnGroup group;
  group.sums.push_back(sum);
  group.space = rowSpaceOf(domainOf(sum));
  group.unit = nn::unitOf(sum);
  auto mayTake = [&](Operation *op) {
    return op && isRowOp(op) && !nn::isReduction(op) &&
           (isCheap(op) || !isStored(op));
  };
  auto expand = [&](auto &self, Value value) -> void {
    Operation *op = value.getDefiningOp();
    // A reshape of what is read from memory is read in its own shape.
    bool view = isa_and_nonnull<nn::ReshapeOp>(op) &&
                !mayTake(op->getOperand(0).getDefiningOp());
    if (mayTake(op) && !view) {
      if (!isCheap(op))
        group.cone.insert(op);
      for (Value operand : op->getOperands())
        self(self, operand);
      return;
    }
    while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
      value = reshape.getOperand();
    int64_t elements = nn::tensorType(value).getNumElements();
    if (elements == group.space.rows * group.space.length)
      group.tensors.insert(value);
  };
  expand(expand, sum->getOperand(0));
  if (group.tensors.size() > kMaxColumnInputs ||
      failed(domainOfColumns(group))) {
    group.cone.clear();
    group.tensors.clear();
    Value operand = sum->getOperand(0);
    while (auto reshape = operand.getDefiningOp<nn::ReshapeOp>())
      operand = reshape.getOperand();
    group.tensors.insert(operand);
  }
  return group;
}

bool BlockFuser::mayJoin(const ColumnGroup &a, const ColumnGroup &b) const {
  // What backward computes again is not to be there, and kept, since forward.
  if (a.space.rows != b.space.rows || a.space.length != b.space.length ||
      a.unit != b.unit ||
      nn::isBackward(a.sums.front()) != nn::isBackward(b.sums.front()))
    return false;
  if (llvm::none_of(a.tensors,
                    [&](Value tensor) { return b.tensors.contains(tensor); }))
    return false;
  for (Operation *x : a.sums)
    for (Operation *y : b.sums)
      if (graph.depend(x, y))
        return false;
  ColumnGroup both = a;
  both.sums.append(b.sums);
  both.cone.insert(b.cone.begin(), b.cone.end());
  return succeeded(domainOfColumns(both));
}

/// Is the group one whose rows are walked anyway, because something else reads
/// them, and short enough?
bool BlockFuser::mayHoldSum(unsigned id) const {
  const Group &group = graph.group(id);
  unsigned sums = 0;
  bool read = false;
  for (unsigned position : group.members) {
    Operation *op = graph.at(position);
    sums += isColumnSum(op);
    read |= !isa<nn::ReshapeOp>(op) && !isColumnSum(op) && isStored(op);
  }
  return read && sums < kMaxSumsBesideRows &&
         group.space.length <= kLongestRowBesideSums;
}

/// Makes the sum part of a kernel over the rows that it adds up: of one that
/// computes them, or else reads them.
bool BlockFuser::joinRows(Operation *sum) {
  Value rows = sum->getOperand(0);
  while (auto reshape = rows.getDefiningOp<nn::ReshapeOp>())
    rows = reshape.getOperand();
  llvm::SmallSetVector<unsigned, 4> candidates;
  auto consider = [&](Operation *op) {
    if (op)
      if (std::optional<unsigned> id = graph.groupOf(op))
        candidates.insert(*id);
  };
  consider(rows.getDefiningOp());
  if (Operation *op = rows.getDefiningOp(); op && isRowOp(op))
    for (Value operand : op->getOperands())
      consider(operand.getDefiningOp());
  for (Operation *reader : rows.getUsers())
    consider(reader);
  return llvm::any_of(candidates, [&](unsigned id) {
    return mayHoldSum(id) && graph.joinSum(sum, id);
  });
}

void BlockFuser::formColumns() {
  for (unsigned position = 0; position < graph.size(); ++position) {
    Operation *op = graph.at(position);
    if (!isColumnSum(op) || (sumsBesideRows && joinRows(op)))
      continue;
    ColumnGroup group = columnGroupOf(op);
    auto partner = llvm::find_if(
        columns, [&](ColumnGroup &other) { return mayJoin(other, group); });
    if (partner == columns.end()) {
      columns.push_back(std::move(group));
      continue;
    }
    partner->sums.push_back(op);
    partner->cone.insert(group.cone.begin(), group.cone.end());
    partner->tensors.insert(group.tensors.begin(), group.tensors.end());
  }
}

void BlockFuser::buildColumns(const ColumnGroup &group) {
  // What was joined was checked to have one.
  FailureOr<Shape> domain = domainOfColumns(group);
  replace(
      group.sums, *domain, nn::FusedKind::columns, group.sums,
      [&](Operation *op) {
        return group.cone.contains(op) || llvm::is_contained(group.sums, op);
      },
      graph.positionOf(group.sums.back()));
}

//===----------------------------------------------------------------------===//
// Cycles
//===----------------------------------------------------------------------===//

/// What the block is cut into: row groups by their numbers, then column groups,
/// then the other ops by their positions.
SmallVector<unsigned> BlockFuser::parts() const {
  unsigned rows = graph.groupCount(), others = rows + columns.size();
  SmallVector<unsigned> result;
  for (unsigned position = 0; position < graph.size(); ++position)
    result.push_back(
        graph.groupOf(graph.at(position)).value_or(others + position));
  for (auto [i, group] : llvm::enumerate(columns))
    for (Operation *sum : group.sums)
      result[graph.positionOf(sum)] = rows + i;
  return result;
}

/// Takes groups apart until every one can run at once.
void BlockFuser::breakCycles() {
  while (std::optional<unsigned> part = graph.partOnCycle(parts())) {
    unsigned rows = graph.groupCount();
    if (*part < rows) {
      SmallVector<Operation *> sums;
      for (unsigned position : graph.group(*part).members)
        if (isColumnSum(graph.at(position)))
          sums.push_back(graph.at(position));
      graph.dissolve(*part);
      for (Operation *sum : sums)
        columns.push_back(columnGroupOf(sum));
      continue;
    }
    SmallVector<Operation *> sums = std::move(columns[*part - rows].sums);
    columns.erase(columns.begin() + (*part - rows));
    for (Operation *sum : sums)
      columns.push_back(columnGroupOf(sum));
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void BlockFuser::buildRows(unsigned id) {
  const Group &group = graph.group(id);
  SmallVector<Operation *> members, roots;
  for (unsigned position : group.members)
    if (became[position])
      members.push_back(graph.at(position));
  llvm::SmallPtrSet<Operation *, 16> inside(members.begin(), members.end());
  // A reshape that others read stays outside, and reads the group's result.
  llvm::SmallPtrSet<Operation *, 16> needed;
  for (Operation *op : llvm::reverse(members)) {
    bool read = llvm::any_of(op->getUsers(), [&](Operation *user) {
      return !inside.contains(user) ||
             (isa<nn::ReshapeOp>(user) && needed.contains(user));
    });
    if (read)
      needed.insert(op);
  }
  for (Operation *op : members)
    if (needed.contains(op) && !isa<nn::ReshapeOp>(op))
      roots.push_back(op);
  if (roots.empty())
    return;
  // A sum of columns, which little waits for, does not hold up the rows.
  unsigned position = group.members.front();
  for (unsigned member : group.members)
    if (became[member] && !isColumnSum(became[member]))
      position = member;
  replace(
      roots, group.domain, nn::FusedKind::rows, members,
      [&](Operation *op) { return inside.contains(op); }, position);
}

/// Elementwise ops on one row that something other than a group reads.
void BlockFuser::buildLeftOvers() {
  for (unsigned position = 0; position < graph.size(); ++position) {
    Operation *op = became[position];
    if (!op || !isRowOp(op) || op->use_empty() ||
        isa<nn::ConstantOp, nn::BroadcastOp, nn::ReshapeOp, nn::FusedOp>(op))
      continue;
    ArrayRef<int64_t> own = domainOf(op);
    Shape domain(own.begin(), own.end());
    if (domain.empty())
      domain.push_back(1);
    replace(
        op, domain, nn::FusedKind::rows, op,
        [&](Operation *other) { return other == op; }, position);
  }
}

//===----------------------------------------------------------------------===//
// Replacement and order
//===----------------------------------------------------------------------===//

/// The unit of a group: that whose parameters it reads, else that of the last
/// member that has one, since it completes the group. Its phase: the latest of
/// its members', but one that reads nothing of backward begins with what its
/// members compute again.
static void inheritPlaces(nn::FusedOp fused, ArrayRef<Operation *> members) {
  nn::Phase phase = nn::Phase::forward;
  bool reads = false;
  for (Operation *member : members) {
    FlatSymbolRefAttr unit = nn::unitOf(member);
    bool itReads = readsParameters(member);
    if (unit && (itReads || !reads))
      nn::setUnit(fused, unit);
    reads |= unit && itReads;
    phase = std::max(phase, nn::phaseOf(member));
  }
  if (phase == nn::Phase::backward && !nn::readsBackward(fused))
    phase = nn::Phase::recompute;
  nn::setPhase(fused, phase);
}

void BlockFuser::replace(ArrayRef<Operation *> roots, ArrayRef<int64_t> domain,
                         nn::FusedKind kind, ArrayRef<Operation *> members,
                         llvm::function_ref<bool(Operation *)> takes,
                         unsigned position) {
  Operation *last = roots.back();
  SmallVector<Location> locs;
  SmallVector<Value> results;
  for (Operation *root : roots) {
    locs.push_back(root->getLoc());
    results.push_back(root->getResult(0));
  }
  Location loc = locs.size() == 1
                     ? locs.front()
                     : FusedLoc::get(block.getParent()->getContext(), locs);
  OpBuilder builder(last);
  Operation *before = last->getPrevNode();
  nn::FusedOp fused;
  SmallVector<Value> values =
      FusedBuilder(builder, loc, kind, domain, takes).build(results, fused);
  inheritPlaces(fused, members);
  for (Operation *made = before ? before->getNextNode() : &block.front();
       made != last; made = made->getNextNode()) {
    keys[made] = position;
    if (made != fused)
      nn::inheritPlace(made, fused);
  }
  for (auto [result, value] : llvm::zip_equal(results, values))
    result.replaceAllUsesWith(value);
  for (Operation *member : llvm::reverse(members)) {
    unsigned at = graph.positionOf(member);
    if (!member->use_empty())
      continue;
    keys.erase(member);
    became[at] = nullptr;
    member->erase();
  }
}

/// Erases what nothing reads any more.
static void eraseDead(Block &block, SmallVectorImpl<Operation *> &became,
                      llvm::DenseMap<Operation *, unsigned> &keys,
                      const FusionGraph &graph) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!op.use_empty() || !isMemoryEffectFree(&op) ||
        op.hasTrait<OpTrait::IsTerminator>())
      continue;
    keys.erase(&op);
    if (graph.contains(&op) && became[graph.positionOf(&op)] == &op)
      became[graph.positionOf(&op)] = nullptr;
    op.erase();
  }
}

/// A stable topological order: of the ops whose operands are there, the one
/// that stood first.
LogicalResult BlockFuser::sort() {
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> index;
  for (Operation &op : block) {
    index[&op] = ops.size();
    ops.push_back(&op);
  }
  std::vector<SmallVector<unsigned>> successors(ops.size());
  SmallVector<unsigned> waiting(ops.size(), 0);
  auto addEdge = [&](Operation *from, Operation *to) {
    auto it = index.find(from);
    if (it == index.end() || from == to)
      return;
    successors[it->second].push_back(index[to]);
    ++waiting[index[to]];
  };
  Operation *previous = nullptr;
  for (Operation *op : ops) {
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          addEdge(producer, op);
    });
    for (Operation *reader : readersBeforeEnd(op))
      addEdge(reader, op);
    if (!keepsOrder(op))
      continue;
    if (previous)
      addEdge(previous, op);
    previous = op;
  }
  using Entry = std::pair<std::pair<unsigned, unsigned>, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  auto push = [&](unsigned i) { ready.push({{keys.lookup(ops[i]), i}, i}); };
  for (unsigned i = 0; i < ops.size(); ++i)
    if (waiting[i] == 0)
      push(i);
  unsigned placed = 0;
  Operation *terminator = block.getTerminator();
  while (!ready.empty()) {
    unsigned i = ready.top().second;
    ready.pop();
    ++placed;
    if (ops[i] != terminator)
      ops[i]->moveBefore(terminator);
    for (unsigned next : successors[i])
      if (--waiting[next] == 0)
        push(next);
  }
  if (placed != ops.size())
    return block.getParentOp()->emitError("fused groups depend on each other");
  return success();
}

LogicalResult BlockFuser::run() {
  for (unsigned position = 0; position < graph.size(); ++position) {
    became.push_back(graph.at(position));
    keys[graph.at(position)] = position;
  }
  graph.formGroups();
  formColumns();
  breakCycles();
  for (const ColumnGroup &group : columns)
    buildColumns(group);
  eraseDead(block, became, keys, graph);
  for (unsigned id : graph.liveGroups())
    buildRows(id);
  eraseDead(block, became, keys, graph);
  buildLeftOvers();
  eraseDead(block, became, keys, graph);
  return sort();
}

namespace {

struct FusePass : nn::impl::FusePassBase<FusePass> {
  using FusePassBase::FusePassBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Block &block : getOperation().getBody())
      if (failed(BlockFuser(block, sumsBesideRows).run()))
        return signalPassFailure();
  }
};

} // namespace
