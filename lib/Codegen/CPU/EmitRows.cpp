// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels: for each row the phases of its plan, each a loop over vectors.

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Codegen/Kernel/RowPlan.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

namespace {

class RowEmitter {
public:
  explicit RowEmitter(KernelEmitter &e) : e(e), plan(e.kernel) {}

  void run(Value begin, Value end);

private:
  void emitRow(Value row);
  void emitPhase(const RowPhase &phase);
  void emitLoop(const RowPhase &phase);
  /// One vector of a phase: stores, and adds to one accumulator per reduction.
  void emitVector(const RowPhase &phase, Value index, unsigned width,
                  MutableArrayRef<Value> accumulators);
  void finishReductions(const RowPhase &phase, ArrayRef<Value> accumulators,
                        unsigned unroll, ArrayRef<Value> tail);

  KernelEmitter &e;
  RowPlan plan;
  ValueMap buffers;             // of all kept values, made once
  SmallVector<Value> leading;   // of the current row
  SmallVector<Value> addresses; // of the current row
  Scope scalars;                // uniform values of the current row
  ValueMap filled;              // row buffers of completed phases
};

} // namespace

/// Partial sums of a reduction that are side by side: enough for the latency of
/// an addition where rows come from memory.
static constexpr int64_t kAccumulators = 2;
/// Partial maxima, which keep a NaN at the price of a longer latency: where
/// much is computed of an element, fewer hide it. Their number changes no bit
/// of a result.
static constexpr unsigned kMaxima = 4;

void RowEmitter::run(Value begin, Value end) {
  Type pointer = LLVM::LLVMPointerType::get(e.b.getContext());
  int64_t length = e.kernel.getRowLength();
  for (Value value : plan.kept)
    buffers[value] =
        LLVM::AllocaOp::create(e.b, e.loc, pointer, e.b.getF32Type(),
                               e.constant(length), /*alignment=*/64);
  scf::ForOp rows = e.loop(begin, end, e.constant(1));
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(rows.getBody()->getTerminator());
  emitRow(rows.getInductionVar());
}

void RowEmitter::emitRow(Value row) {
  leading = e.delinearize(row);
  addresses = e.body.advanceAll(e.bases, leading);
  scalars.addresses = addresses;
  scalars.leading = leading;
  scalars.index = e.constant(0);
  for (BlockArgument argument : e.kernel.getBody().getArguments())
    if (e.kernel.isUniform(argument))
      e.body.emit(argument, scalars);
  for (const RowPhase &phase : plan.phases)
    emitPhase(phase);
}

void RowEmitter::emitPhase(const RowPhase &phase) {
  e.body.emitUniform(phase.uniformOps, scalars);
  for (unsigned output : phase.scalarOutputs)
    e.body.storeOutput(output, scalars);
  if (!phase.needsLoop())
    return;
  emitLoop(phase);
  for (Value value : phase.kept)
    filled[value] = buffers.lookup(value);
}

void RowEmitter::emitVector(const RowPhase &phase, Value index, unsigned width,
                            MutableArrayRef<Value> accumulators) {
  Scope scope;
  scope.width = width;
  scope.index = index;
  scope.addresses = addresses;
  scope.leading = leading;
  scope.scalars = &scalars.values;
  scope.rowBuffers = &filled;
  for (auto [reduction, accumulator] :
       llvm::zip_equal(phase.reductions, accumulators)) {
    Value vector = e.body.emit(reduction->getOperand(0), scope);
    accumulator = accumulate(e.b, e.loc, reduction, accumulator, vector);
  }
  for (Value value : phase.kept)
    e.body.storeRowBuffer(value, buffers.lookup(value), scope);
  // All loads come before the first store: an output may lie where an input
  // lies (exec-reuse-in-place).
  for (unsigned output : phase.outputs)
    e.body.emit(e.kernel.getYielded()[output], scope);
  for (unsigned output : phase.outputs)
    e.body.storeOutput(output, scope);
}

/// The row as whole steps of unroll × lanes, then single vectors, then one
/// vector of the odd lanes: the length is known, so nothing needs a mask.
void RowEmitter::emitLoop(const RowPhase &phase) {
  int64_t length = e.kernel.getRowLength(), lanes = e.target.lanes;
  int64_t vectors = length / lanes, odd = length % lanes;
  size_t count = phase.reductions.size();
  // The order of a sum must not depend on what else its kernel does: whether a
  // value is recomputed would change results.
  bool onlyMaxima = llvm::all_of(phase.reductions, [](Operation *reduction) {
    return isa<nn::ReduceMaxOp>(reduction);
  });
  int64_t wanted = count == 0   ? unrollFor(phase.cost)
                   : onlyMaxima ? std::min(kMaxima, unrollFor(phase.cost))
                                : kAccumulators;
  int64_t unroll = std::max<int64_t>(1, std::min<int64_t>(wanted, vectors));

  SmallVector<Value> accumulators;
  for (int64_t k = 0; k < unroll; ++k)
    for (Operation *reduction : phase.reductions)
      accumulators.push_back(initialAccumulator(e.b, e.loc, reduction, lanes));
  auto slice = [&](SmallVector<Value> &all, int64_t k) {
    return MutableArrayRef<Value>(all).slice(k * count, count);
  };

  int64_t steps = vectors / unroll;
  if (steps > 0) {
    scf::ForOp loop = e.loop(e.constant(0), e.constant(steps * unroll * lanes),
                             e.constant(unroll * lanes), accumulators);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(loop.getBody());
    if (count == 0)
      e.b.setInsertionPoint(loop.getBody()->getTerminator());
    SmallVector<Value> next(loop.getRegionIterArgs());
    for (int64_t k = 0; k < unroll; ++k) {
      Value index = arith::AddIOp::create(e.b, e.loc, loop.getInductionVar(),
                                          e.constant(k * lanes));
      emitVector(phase, index, lanes, slice(next, k));
    }
    if (count != 0)
      scf::YieldOp::create(e.b, e.loc, next);
    accumulators.assign(loop.getResults().begin(), loop.getResults().end());
  }
  for (int64_t k = steps * unroll; k < vectors; ++k)
    emitVector(phase, e.constant(k * lanes), lanes,
               slice(accumulators, k - steps * unroll));
  SmallVector<Value> tail;
  if (odd > 0) {
    for (Operation *reduction : phase.reductions)
      tail.push_back(initialAccumulator(e.b, e.loc, reduction, odd));
    emitVector(phase, e.constant(vectors * lanes), odd, tail);
  }
  finishReductions(phase, accumulators, unroll, tail);
}

void RowEmitter::finishReductions(const RowPhase &phase,
                                  ArrayRef<Value> accumulators, unsigned unroll,
                                  ArrayRef<Value> tail) {
  size_t count = phase.reductions.size();
  for (auto [r, reduction] : llvm::enumerate(phase.reductions)) {
    Value total = accumulators[r];
    for (unsigned k = 1; k < unroll; ++k)
      total =
          accumulate(e.b, e.loc, reduction, total, accumulators[k * count + r]);
    total = reduceLanes(e.b, e.loc, reduction, total);
    if (!tail.empty())
      total = accumulate(e.b, e.loc, reduction, total,
                         reduceLanes(e.b, e.loc, reduction, tail[r]));
    scalars.values[reduction->getResult(0)] =
        finishReduction(e.b, e.loc, reduction, total, e.kernel.getRowLength());
  }
}

void kernels::emitRows(KernelEmitter &e, Value begin, Value end) {
  RowEmitter(e).run(begin, end);
}
