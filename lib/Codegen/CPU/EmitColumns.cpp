// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Column kernels: blocks of columns, each summed over all rows in their order,
// so the result does not depend on how the columns were split among threads.

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

namespace {

class ColumnEmitter {
public:
  explicit ColumnEmitter(KernelEmitter &e);

  void run(Value begin, Value end);

private:
  Value sweep(Value begin, Value end, unsigned width, unsigned times);
  void emitBlock(Value column, unsigned width, unsigned times);
  SmallVector<Value> emitAxis(unsigned axis, SmallVector<Value> &leading,
                              SmallVector<Value> accumulators);
  SmallVector<Value> emitRow(ArrayRef<Value> leading,
                             SmallVector<Value> accumulators);
  void finish(ArrayRef<Value> accumulators);

  KernelEmitter &e;
  SmallVector<Operation *> reductions;
  SmallVector<Operation *> uniformOps;
  DenseSet<Value> afterReduction;
  unsigned vectors = 8; // side by side, each with its accumulators
  // Of the current block.
  Value column;
  unsigned width = 1, times = 1;
};

} // namespace

ColumnEmitter::ColumnEmitter(KernelEmitter &e) : e(e) {
  for (Operation &op : e.kernel.getBody().without_terminator()) {
    Value result = op.getResult(0);
    bool after = nn::isReduction(&op) ||
                 llvm::any_of(op.getOperands(), [&](Value operand) {
                   return afterReduction.contains(operand);
                 });
    if (after)
      afterReduction.insert(result);
    if (nn::isReduction(&op))
      reductions.push_back(&op);
    else if (e.kernel.isUniform(result))
      uniformOps.push_back(&op);
  }
  // Half of the registers hold accumulators, the rest what a row needs.
  unsigned accumulators = e.target.registers / 2;
  unsigned perVector = std::max<size_t>(1, reductions.size());
  vectors = std::max(1u, std::min(vectors, accumulators / perVector));
}

void ColumnEmitter::run(Value begin, Value end) {
  unsigned lanes = e.target.lanes;
  Value done = begin;
  if (vectors > 1)
    done = sweep(done, end, lanes, vectors);
  done = sweep(done, end, lanes, 1);
  sweep(done, end, 1, 1);
}

Value ColumnEmitter::sweep(Value begin, Value end, unsigned width,
                           unsigned times) {
  Value step = e.constant(static_cast<int64_t>(width) * times);
  Value left = arith::SubIOp::create(e.b, e.loc, end, begin);
  Value rest = arith::RemUIOp::create(e.b, e.loc, left, step);
  Value to = arith::SubIOp::create(e.b, e.loc, end, rest);
  scf::ForOp loop = e.loop(begin, to, step);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(loop.getBody()->getTerminator());
  emitBlock(loop.getInductionVar(), width, times);
  return to;
}

void ColumnEmitter::emitBlock(Value start, unsigned blockWidth,
                              unsigned blockTimes) {
  column = start;
  width = blockWidth;
  times = blockTimes;
  SmallVector<Value> accumulators;
  for (unsigned k = 0; k < times; ++k)
    for (Operation *reduction : reductions)
      accumulators.push_back(initialAccumulator(e.b, e.loc, reduction, width));
  SmallVector<Value> leading;
  finish(emitAxis(0, leading, accumulators));
}

/// A loop along one leading axis, the accumulators carried through.
SmallVector<Value> ColumnEmitter::emitAxis(unsigned axis,
                                           SmallVector<Value> &leading,
                                           SmallVector<Value> accumulators) {
  ArrayRef<int64_t> sizes = e.kernel.getLeadingSizes();
  if (axis == sizes.size())
    return emitRow(leading, accumulators);
  scf::ForOp loop = e.loop(e.constant(0), e.constant(sizes[axis]),
                           e.constant(1), accumulators);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToEnd(loop.getBody());
  leading.push_back(loop.getInductionVar());
  SmallVector<Value> carried(loop.getRegionIterArgs());
  SmallVector<Value> next = emitAxis(axis + 1, leading, carried);
  leading.pop_back();
  scf::YieldOp::create(e.b, e.loc, next);
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> ColumnEmitter::emitRow(ArrayRef<Value> leading,
                                          SmallVector<Value> accumulators) {
  SmallVector<Value> addresses = e.body.advanceAll(e.bases, leading);
  Scope scalars;
  scalars.addresses = addresses;
  scalars.leading = leading;
  scalars.index = e.constant(0);
  for (BlockArgument argument : e.kernel.getBody().getArguments())
    if (e.kernel.isUniform(argument))
      e.body.emit(argument, scalars);
  e.body.emitUniform(uniformOps, scalars);
  for (unsigned k = 0; k < times; ++k) {
    Scope scope;
    scope.width = width;
    scope.addresses = addresses;
    scope.leading = leading;
    scope.scalars = &scalars.values;
    scope.index =
        arith::AddIOp::create(e.b, e.loc, column, e.constant(k * width));
    for (auto [r, reduction] : llvm::enumerate(reductions)) {
      Value vector = e.body.emit(reduction->getOperand(0), scope);
      Value &accumulator = accumulators[k * reductions.size() + r];
      accumulator = accumulate(e.b, e.loc, reduction, accumulator, vector);
    }
  }
  return accumulators;
}

void ColumnEmitter::finish(ArrayRef<Value> accumulators) {
  for (unsigned k = 0; k < times; ++k) {
    Scope scope;
    scope.width = width;
    scope.addresses = e.bases;
    scope.index =
        arith::AddIOp::create(e.b, e.loc, column, e.constant(k * width));
    for (auto [r, reduction] : llvm::enumerate(reductions))
      scope.values[reduction->getResult(0)] = finishReduction(
          e.b, e.loc, reduction, accumulators[k * reductions.size() + r],
          e.kernel.getRowCount());
    for (unsigned i = 0; i < e.kernel.getYielded().size(); ++i)
      e.body.storeOutput(i, scope);
  }
}

void kernels::emitColumns(KernelEmitter &e, Value begin, Value end) {
  ColumnEmitter(e).run(begin, end);
}
