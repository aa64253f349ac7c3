// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of a graph without module paths. A transformer repeats one sequence of
// ops; the period is found by comparing the sequence with itself shifted, the
// border of a block is where only the residual stream crosses.

#include "UnitRules.h"

#include "shardonnx/Dialect/NN/IR/NN.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

// Whether parameters or inputs flow into the op: masks and tables that the
// first block makes for all of them do not repeat.
static bool carriesData(Operation *op, llvm::DenseSet<Operation *> &carriers) {
  bool carries = isa<nn::GetOp>(op);
  for (Value operand : op->getOperands())
    carries |=
        !operand.getDefiningOp() || carriers.contains(operand.getDefiningOp());
  if (carries)
    carriers.insert(op);
  return carries;
}

// Equal for ops that do the same thing on operands of the same kind and type.
static llvm::hash_code describe(Operation *op,
                                const llvm::DenseSet<Operation *> &carriers) {
  llvm::hash_code hash = llvm::hash_combine(op->getName());
  for (NamedAttribute attribute : nn::attributesWithoutPlace(op))
    if (attribute.getName() != "stream") // of a dropout's random numbers
      hash =
          llvm::hash_combine(hash, attribute.getName(), attribute.getValue());
  for (Type type : op->getResultTypes())
    hash = llvm::hash_combine(hash, type);
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    bool isParameter = def && isa<nn::GetOp>(def);
    bool isData = !def || carriers.contains(def);
    hash = llvm::hash_combine(hash, operand.getType(), isParameter, isData);
  }
  return hash;
}

namespace {
struct Run {
  size_t begin = 0, end = 0, period = 0;
  size_t length() const { return end - begin; }
};
} // namespace

static bool readsParameter(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    return operand.getDefiningOp<nn::GetOp>() != nullptr;
  });
}

// Ops of a block, many times what any transformer has: the search takes as many
// passes over the graph.
constexpr size_t longestBlock = 4096;

// The longest run in which every op equals the one a period later, at least two
// periods long and with parameters in it; the shortest period of equals.
static Run findRun(ArrayRef<Operation *> ops,
                   ArrayRef<llvm::hash_code> hashes) {
  Run best;
  size_t count = ops.size();
  size_t longest = std::min(count / 2, longestBlock);
  for (size_t period = 2; period <= longest; ++period)
    for (size_t begin = 0, i = 0; i + period <= count; ++i) {
      if (i + period < count && hashes[i] == hashes[i + period])
        continue;
      Run run{begin, i + period, period};
      begin = i + 1;
      if (run.length() >= 2 * period && run.length() > best.length() &&
          llvm::any_of(ops.slice(run.begin, period), readsParameter))
        best = run;
    }
  return best;
}

// How many values made within the run cross the border before each op.
static SmallVector<size_t> countCrossing(ArrayRef<Operation *> ops,
                                         const Run &run) {
  llvm::DenseMap<Operation *, size_t> positions;
  llvm::DenseMap<Value, size_t> lastUses;
  for (size_t i = run.begin; i != ops.size(); ++i) {
    for (Value operand : ops[i]->getOperands())
      if (positions.contains(operand.getDefiningOp()))
        lastUses[operand] = i;
    positions[ops[i]] = i;
  }
  SmallVector<size_t> crossing(ops.size() + 2, 0); // first as differences
  for (auto [value, last] : lastUses) {
    ++crossing[positions[value.getDefiningOp()] + 1];
    --crossing[last + 1];
  }
  for (size_t i = 1; i != crossing.size(); ++i)
    crossing[i] += crossing[i - 1];
  return crossing;
}

SmallVector<int> fsdp::findRepeatedBlocks(ArrayRef<Operation *> allOps) {
  SmallVector<Operation *> ops;
  SmallVector<size_t> indices;
  SmallVector<llvm::hash_code> hashes;
  llvm::DenseSet<Operation *> carriers;
  for (auto [index, op] : llvm::enumerate(allOps)) {
    if (!carriesData(op, carriers) || isa<nn::GetOp>(op))
      continue;
    ops.push_back(op);
    indices.push_back(index);
    hashes.push_back(describe(op, carriers));
  }
  SmallVector<int> blocks(allOps.size(), -1);
  Run run = findRun(ops, hashes);
  if (run.period == 0)
    return blocks;

  // The rotation with the fewest crossing values, then the most blocks.
  SmallVector<size_t> crossings = countCrossing(ops, run);
  size_t bestBegin = run.begin, bestCrossing = SIZE_MAX, bestCount = 0;
  for (size_t begin = run.begin; begin != run.begin + run.period; ++begin) {
    size_t crossing = crossings[begin + run.period];
    size_t count = (run.end - begin) / run.period;
    if (crossing < bestCrossing ||
        (crossing == bestCrossing && count > bestCount)) {
      bestBegin = begin;
      bestCrossing = crossing;
      bestCount = count;
    }
  }
  for (size_t i = 0; i != bestCount * run.period; ++i)
    blocks[indices[bestBegin + i]] = i / run.period;
  return blocks;
}
