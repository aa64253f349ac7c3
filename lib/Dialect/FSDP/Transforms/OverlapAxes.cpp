// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders a step so that collectives of tensor and context axes have work beside
// them: exec-overlap-axes then awaits each where its result is touched. First
// collectives move up to where they have to begin; then ops that would wait for
// one let others go first.

#include "AxisWork.h"
#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"

#include "llvm/ADT/DenseSet.h"

#include <deque>
#include <limits>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_OVERLAPAXESPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

/// How many ops an op that waits may let go first, and from how many products
/// it may take one.
static constexpr unsigned kAhead = 256, kBehind = 4;

/// The op that makes a value, behind what only names its memory.
static Operation *makerOf(Value value) {
  Operation *def = value.getDefiningOp();
  while (def && isAlias(def) && def->getNumOperands() == 1)
    def = def->getOperand(0).getDefiningOp();
  return def;
}

//===----------------------------------------------------------------------===//
// Collectives begin in time
//===----------------------------------------------------------------------===//

namespace {

/// Moves each up to the last place from which the work before its first reader
/// takes as long as it does, behind those before it in the queue.
class EarlyStarts {
public:
  EarlyStarts(Block &body, const AxisRates &rates);
  void run();

private:
  unsigned firstReader(Value value) const;
  unsigned behindOperands(Operation *op) const;

  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, unsigned> positions;
  SmallVector<double> before; // work before each op
};

/// Goes over the ops in their order. Those behind the cursor are in no queue
/// yet; what is sent takes its turn in one.
class Order {
public:
  Order(Block &body, const AxisRates &rates) : body(body), rates(rates) {}
  void run();

private:
  struct Sending {
    Operation *op;
    double rest;
  };
  bool waits(Operation *op) const;
  bool isPlaced(Value value) const {
    Operation *def = value.getDefiningOp();
    return !def || placed.contains(def);
  }
  bool isSource(Operation *op) const;
  bool canGo(Operation *op) const;
  Operation *findAhead(Operation *waiting) const;
  void place(Operation *op);
  void placeBefore(Operation *op, Operation *cursor);
  bool takeBehind(Operation *cursor);
  void work(double amount);

  double workOf(Operation *op) const { return fsdp::workOf(op, rates); }

  Block &body;
  const AxisRates rates;
  llvm::DenseSet<Operation *> placed;
  std::deque<Sending> queue;
  std::deque<Operation *> products; // placed where nothing was sent
};

} // namespace

EarlyStarts::EarlyStarts(Block &body, const AxisRates &rates) {
  double sum = 0;
  for (Operation &op : body) {
    positions[&op] = ops.size();
    ops.push_back(&op);
    before.push_back(sum);
    sum += workOf(&op, rates);
  }
}

unsigned EarlyStarts::firstReader(Value value) const {
  unsigned first = ops.size() - 1;
  for (Operation *user : value.getUsers())
    first = std::min(first, isAlias(user) ? firstReader(user->getResult(0))
                                          : positions.lookup(user));
  return first;
}

unsigned EarlyStarts::behindOperands(Operation *op) const {
  unsigned behind = 0;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      behind = std::max(behind, positions.lookup(def) + 1);
  return behind;
}

void EarlyStarts::run() {
  llvm::DenseSet<Operation *> moved;
  llvm::DenseMap<unsigned, Operation *> firstMoved; // to a place
  // When the queue has to be free, for those behind.
  double free = std::numeric_limits<double>::infinity();
  for (unsigned at = ops.size(); at-- > 0;) {
    Operation *op = ops[at];
    if (!sends(op))
      continue;
    unsigned least = behindOperands(op);
    double read = before[firstReader(op->getResult(0))];
    double begin = std::min(read, free) - sentBy(op);
    free = std::max(begin, before[least]);
    unsigned place = at;
    while (place > least && before[place] > begin)
      --place;
    while (moved.contains(ops[place]))
      ++place;
    if (place < at) {
      Operation *&first = firstMoved[place];
      op->moveBefore(first ? first : ops[place]);
      first = op;
      moved.insert(op);
    }
  }
}

//===----------------------------------------------------------------------===//
// What waits lets others go first
//===----------------------------------------------------------------------===//

bool Order::waits(Operation *op) const {
  if (isFree(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *maker = makerOf(operand);
    return llvm::any_of(
        queue, [&](const Sending &sending) { return sending.op == maker; });
  });
}

/// Made of parameters and constants alone: it goes with its readers.
bool Order::isSource(Operation *op) const {
  return isa<nn::GetOp>(op) || (isFree(op) && !isa<nn::GradOp>(op) &&
                                llvm::all_of(op->getOperands(), [&](Value v) {
                                  Operation *def = v.getDefiningOp();
                                  return def && isSource(def);
                                }));
}

bool Order::canGo(Operation *op) const {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    if (isPlaced(operand))
      return true;
    Operation *def = operand.getDefiningOp();
    return isSource(def) || (isAlias(def) && canGo(def));
  });
}

/// The next op of the same unit that has all it reads; another unit's would be
/// gathered earlier.
Operation *Order::findAhead(Operation *waiting) const {
  FlatSymbolRefAttr unit = nn::unitOf(waiting);
  Operation *op = waiting->getNextNode();
  for (unsigned seen = 0; op && seen < kAhead; op = op->getNextNode(), ++seen)
    if (!isFree(op) && nn::unitOf(op) == unit && !waits(op) && canGo(op))
      return op;
  return nullptr;
}

void Order::work(double amount) {
  while (!queue.empty() && amount > 0) {
    double done = std::min(amount, queue.front().rest);
    queue.front().rest -= done;
    amount -= done;
    if (queue.front().rest > 0)
      return;
    queue.pop_front();
  }
}

static bool isGradientProduct(Operation *op) {
  return isa<nn::MatmulOp, nn::MatmulEpilogueOp, nn::F8ProductOp>(op) &&
         llvm::all_of(op->getResults(), becomesGradient);
}

void Order::place(Operation *op) {
  placed.insert(op);
  if (sends(op)) {
    queue.push_back({op, sentBy(op)});
    return;
  }
  if (queue.empty() && isGradientProduct(op)) {
    products.push_back(op);
    if (products.size() > kBehind)
      products.pop_front();
  }
  work(workOf(op));
}

// With those of its operands that are not there yet.
void Order::placeBefore(Operation *op, Operation *cursor) {
  for (Value operand : op->getOperands())
    if (!isPlaced(operand))
      placeBefore(operand.getDefiningOp(), cursor);
  op->moveBefore(cursor);
  place(op);
}

// Moves a product here that was computed while nothing was sent, with what only
// names its result: of those that take long enough the shortest, else the
// longest.
bool Order::takeBehind(Operation *cursor) {
  if (products.empty())
    return false;
  double rest = queue.front().rest;
  auto best = llvm::max_element(products, [&](Operation *a, Operation *b) {
    double ofA = workOf(a), ofB = workOf(b);
    if ((ofA < rest) != (ofB < rest))
      return ofA < rest;
    return ofA < rest ? ofA < ofB : ofA > ofB;
  });
  SmallVector<Operation *> moved = {*best};
  products.erase(best);
  for (size_t i = 0; i < moved.size(); ++i)
    for (Operation *user : moved[i]->getUsers())
      if (placed.contains(user) && !llvm::is_contained(moved, user))
        moved.push_back(user);
  for (Operation *op : moved)
    op->moveBefore(cursor);
  work(workOf(moved.front()));
  return true;
}

void Order::run() {
  for (Operation *cursor = &body.front(); cursor;) {
    if (waits(cursor)) {
      if (Operation *ahead = findAhead(cursor)) {
        placeBefore(ahead, cursor);
        continue;
      }
      if (takeBehind(cursor))
        continue;
      queue.pop_front();
      continue;
    }
    Operation *next = cursor->getNextNode();
    place(cursor);
    cursor = next;
  }
}

namespace {

struct OverlapAxesPass
    : public fsdp::impl::OverlapAxesPassBase<OverlapAxesPass> {
  using OverlapAxesPassBase::OverlapAxesPassBase;

  void runOnOperation() override {
    AxisRates rates = {flopsPerByteSent, movedPerByteSent};
    for (func::FuncOp function : stepFunctions(getOperation())) {
      Block &body = function.front();
      if (llvm::none_of(body, [](Operation &op) { return sends(&op); }))
        continue;
      EarlyStarts(body, rates).run();
      Order(body, rates).run();
    }
  }
};

} // namespace
