// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Phases of a row kernel, and what is kept between them.

#include "shardonnx/Codegen/Kernel/RowPlan.h"
#include "shardonnx/Codegen/Kernel/BodyEmitter.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

/// Storing and loading a vector of L1 costs about as much as this many
/// instructions; below it computing again wins.
static constexpr unsigned kKeepCost = 6;
/// Longest row that is kept (f32 elements): 256 KiB, within L2 and any stack.
static constexpr int64_t kLongestKeptRow = 1 << 16;

RowPlan::RowPlan(const Kernel &kernel) : kernel(kernel) {
  assignLevels();
  assignRoots();
  chooseKept();
}

/// A value's level is the number of reductions that must be complete before it.
void RowPlan::assignLevels() {
  unsigned deepest = 0;
  for (Operation &op : kernel.getBody().without_terminator()) {
    unsigned level = 0;
    for (Value operand : op.getOperands())
      level = std::max(level, levelOf(operand));
    if (nn::isReduction(&op) && !nn::sumsRows(&op))
      ++level;
    levels[op.getResult(0)] = level;
    deepest = std::max(deepest, level);
  }
  phases.resize(deepest + 1);
}

void RowPlan::assignRoots() {
  for (Operation &op : kernel.getBody().without_terminator()) {
    Value result = op.getResult(0);
    if (nn::sumsRows(&op))
      phases[levelOf(result)].columnSums.push_back(&op);
    else if (nn::isTensorStep(&op))
      phases[levelOf(result)].tensorSteps.push_back(&op);
    else if (nn::isReduction(&op))
      phases[levelOf(op.getOperand(0))].reductions.push_back(&op);
    else if (kernel.isUniform(result))
      phases[levelOf(result)].uniformOps.push_back(&op);
  }
  for (auto [i, value] : llvm::enumerate(kernel.getYielded())) {
    if (!kernel.isStored(value))
      continue;
    RowPhase &phase = phases[levelOf(value)];
    bool scalar = kernel.getOutput(i).strides.back() == 0;
    (scalar ? phase.scalarOutputs : phase.outputs).push_back(i);
  }
}

unsigned RowPlan::recomputeCost(Value value, DenseSet<Value> &seen) const {
  if (kernel.isUniform(value) || kept.contains(value) ||
      !seen.insert(value).second)
    return 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return 1;
  unsigned cost = costOf(op);
  for (Value operand : op->getOperands())
    cost += recomputeCost(operand, seen);
  return cost;
}

void RowPlan::visit(Value value, unsigned phase, DenseSet<Value> &seen) {
  if (kernel.isUniform(value) || !seen.insert(value).second)
    return;
  Operation *op = value.getDefiningOp();
  if (!op) {
    phases[phase].cost += 1;
    return;
  }
  if (levelOf(value) < phase) {
    DenseSet<Value> counted;
    bool fits = kernel.getRowLength() <= kLongestKeptRow;
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    if (fits && isa<FloatType>(element) &&
        recomputeCost(value, counted) > kKeepCost && kept.insert(value))
      phases[levelOf(value)].kept.push_back(value);
    if (kept.contains(value)) {
      phases[phase].cost += 1;
      return;
    }
  }
  phases[phase].cost += costOf(op);
  for (Value operand : op->getOperands())
    visit(operand, phase, seen);
}

/// From the last phase back, since what a phase asks to be kept is a root of an
/// earlier one.
void RowPlan::chooseKept() {
  for (unsigned phase = phases.size(); phase-- > 0;) {
    DenseSet<Value> seen;
    for (Operation *reduction : phases[phase].reductions)
      visit(reduction->getOperand(0), phase, seen);
    for (Operation *sum : phases[phase].columnSums)
      visit(sum->getOperand(0), phase, seen);
    for (unsigned output : phases[phase].outputs)
      visit(kernel.getYielded()[output], phase, seen);
    for (Value value : SmallVector<Value>(phases[phase].kept))
      visit(value, phase, seen);
  }
}
