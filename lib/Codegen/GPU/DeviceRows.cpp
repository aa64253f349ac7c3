// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels on a GPU: a part of a warp, a warp or a block for each row. The
// phases of a row plan follow one another with its values in registers; rows
// too long for that are read again in each phase. Where columns are summed
// besides, a block has a chunk of rows one behind the other and each thread the
// sums of its columns in registers; a second launch adds the chunks in order.

#include "DeviceRowShape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Codegen/Kernel/RowPlan.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

namespace {

class RowsEmitter {
public:
  RowsEmitter(DeviceEmitter &e, const RowPlan &plan, const RowShape &shape);
  void run();

private:
  void runOverChunk();
  void runOverRows();
  void emitRow(Value row);
  Value countedRows();
  Value existing(Value row, Value end);
  void locateThread();
  void locate(Value row);
  void placeSlots();
  void loadSlots();
  void emitPhase(const RowPhase &phase);
  void emitResident(const RowPhase &phase);
  void emitLoops(const RowPhase &phase);
  /// One vector of a phase: adds to the accumulators; none is empty.
  void accumulateInto(const RowPhase &phase, Scope &scope, Value active,
                      MutableArrayRef<Value> accumulators);
  void addToSteps(const RowPhase &phase, Scope &scope);
  void prepare(Scope &scope, Value vector);
  void storeAll(const RowPhase &phase, MutableArrayRef<Scope> scopes);
  void reduce(const RowPhase &phase, ArrayRef<Value> accumulators);
  void joinWarps(const RowPhase &phase, MutableArrayRef<Value> totals);
  void storeScalars();
  void addToColumns(const RowPhase &phase);
  void joinTogether();
  void storePartials();

  DeviceEmitter &e;
  const RowPlan &plan;
  RowShape shape;
  unsigned lanes;
  int64_t vectors; // of a row
  SmallVector<unsigned> alignments;
  Value member;   // the thread's number within its row
  Value group;    // which of the block's rows it has; none: the only one
  Value rowValid; // none: every row exists
  SmallVector<Value> leading, addresses;
  Scope scalars;
  std::vector<Scope> slots;
  SmallVector<Value> slotVectors;
  SmallVector<Value> slotActive; // none: the vector exists
  SmallVector<Operation *> columnSums;
  SmallVector<Value> columnTotals; // so far, of each sum slot by slot
  SmallVector<Value> largest;      // so far, of each step of whole tensors
  SmallVector<unsigned> scalarOutputs;
  Value shared;
  unsigned sharedUsed = 0;
};

} // namespace

RowsEmitter::RowsEmitter(DeviceEmitter &e, const RowPlan &plan,
                         const RowShape &shape)
    : e(e), plan(plan), shape(shape), lanes(e.access.lanes),
      vectors(e.kernel.getRowLength() / lanes),
      alignments(e.access.alignmentsFor(lanes)),
      columnSums(e.kernel.getColumnSums()), largest(e.noLargest()) {}

void RowsEmitter::run() {
  locateThread();
  if (shape.resident)
    placeSlots();
  if (shape.walks)
    runOverChunk();
  else
    runOverRows();
  e.storeSteps(largest);
}

void RowsEmitter::runOverRows() {
  Value row = e.block;
  unsigned together = shape.rowsPerBlock();
  if (group)
    row = e.add(e.mul(e.block, together), group);
  if (e.count)
    row = existing(row, countedRows());
  else if (group && e.kernel.getRowCount() % together != 0)
    row = existing(row, e.i32(e.kernel.getRowCount()));
  emitRow(row);
}

/// Rows that have some of the elements that are counted.
Value RowsEmitter::countedRows() {
  int64_t length = e.kernel.getRowLength();
  Value rows = e.div(e.add(e.count, e.constant(length - 1)), length);
  return arith::TruncIOp::create(e.b, e.loc, e.b.getI32Type(), rows);
}

/// Threads beyond the last row do the last row's work, for shuffles need them
/// all, and store nothing.
Value RowsEmitter::existing(Value row, Value end) {
  rowValid = e.less(row, end);
  Value last = e.add(end, e.i32(-1));
  return arith::SelectOp::create(e.b, e.loc, rowValid, row, last);
}

void RowsEmitter::emitRow(Value row) {
  locate(row);
  if (shape.resident)
    loadSlots();
  for (const RowPhase &phase : plan.phases)
    emitPhase(phase);
  storeScalars();
}

void RowsEmitter::locateThread() {
  member = e.thread;
  if (shape.rowsPerBlock() > 1) {
    member = e.rem(e.thread, shape.threads);
    group = e.div(e.thread, shape.threads);
  }
  if (shape.threads > kWarp) {
    unsigned reductions = llvm::count_if(e.kernel.getBody(), [](Operation &op) {
      return nn::isReduction(&op) && !nn::sumsRows(&op);
    });
    if (reductions > 0)
      shared = e.sharedArray(int64_t(reductions) * kWarp);
  }
}

void RowsEmitter::locate(Value row) {
  leading = e.delinearize(row);
  addresses = e.body.advanceAll(e.bases, leading);
  scalars.addresses = addresses;
  scalars.leading = leading;
  scalars.index = e.constant(0);
  e.setParameters(scalars);
  for (BlockArgument argument : e.kernel.getBody().getArguments())
    if (e.kernel.isUniform(argument) && !argument.use_empty())
      e.body.emit(argument, scalars);
}

void RowsEmitter::prepare(Scope &scope, Value vector) {
  scope.width = lanes;
  scope.alignments = alignments;
  scope.index = e.index(e.mul(vector, lanes));
  scope.addresses = addresses;
  scope.leading = leading;
  scope.scalars = &scalars.values;
}

/// Which vectors of a row the thread has. Beyond the row's end the last vector
/// is loaded again, which is cheaper than a branch, and then left out.
void RowsEmitter::placeSlots() {
  slotActive.resize(shape.slots);
  for (unsigned k = 0; k < shape.slots; ++k) {
    Value vector = e.add(member, e.i32(int64_t(k) * shape.threads));
    if (int64_t(k + 1) * shape.threads > vectors) {
      slotActive[k] = e.less(vector, e.i32(vectors));
      vector = arith::SelectOp::create(e.b, e.loc, slotActive[k], vector,
                                       e.i32(vectors - 1));
    }
    slotVectors.push_back(vector);
  }
}

void RowsEmitter::loadSlots() {
  slots.resize(shape.slots);
  for (auto [slot, vector] : llvm::zip_equal(slots, slotVectors))
    prepare(slot, vector);
  for (Scope &slot : slots)
    for (BlockArgument argument : e.kernel.getBody().getArguments())
      if (e.access.isRowOperand(argument.getArgNumber()) &&
          !argument.use_empty())
        e.body.emit(argument, slot);
}

void RowsEmitter::emitPhase(const RowPhase &phase) {
  e.body.emitUniform(phase.uniformOps, scalars);
  scalarOutputs.append(phase.scalarOutputs);
  if (phase.reductions.empty() && phase.outputs.empty() &&
      phase.columnSums.empty() && phase.tensorSteps.empty())
    return;
  if (shape.resident)
    emitResident(phase);
  else
    emitLoops(phase);
}

void RowsEmitter::accumulateInto(const RowPhase &phase, Scope &scope,
                                 Value active,
                                 MutableArrayRef<Value> accumulators) {
  for (auto [reduction, accumulator] :
       llvm::zip_equal(phase.reductions, accumulators)) {
    Value vector = e.body.emit(reduction->getOperand(0), scope);
    if (active)
      vector = arith::SelectOp::create(e.b, e.loc, active, vector,
                                       e.identity(reduction, lanes));
    accumulator =
        accumulator ? e.combine(reduction, accumulator, vector) : vector;
  }
}

/// What a thread sees twice, of a row or vector that is not its own, is there
/// in another thread, too.
void RowsEmitter::addToSteps(const RowPhase &phase, Scope &scope) {
  for (Operation *step : phase.tensorSteps) {
    Value &value = largest[llvm::find(e.steps, step) - e.steps.begin()];
    value = e.addToLargest(step, scope, value);
  }
}

void RowsEmitter::storeAll(const RowPhase &phase,
                           MutableArrayRef<Scope> scopes) {
  // All values come before the first store: an output may lie where an input
  // lies.
  for (Scope &scope : scopes)
    for (unsigned output : phase.outputs)
      e.body.emit(e.kernel.getYielded()[output], scope);
  for (auto [k, scope] : llvm::enumerate(scopes)) {
    Value active = shape.resident ? slotActive[k] : Value();
    if (active && rowValid)
      active = arith::AndIOp::create(e.b, e.loc, active, rowValid);
    e.when(active ? active : rowValid, [&] {
      for (unsigned output : phase.outputs)
        e.body.storeOutput(output, scope);
    });
  }
}

void RowsEmitter::emitResident(const RowPhase &phase) {
  SmallVector<Value> accumulators(phase.reductions.size());
  for (auto [slot, active] : llvm::zip_equal(slots, slotActive))
    accumulateInto(phase, slot, active, accumulators);
  reduce(phase, accumulators);
  addToColumns(phase);
  for (Scope &slot : slots)
    addToSteps(phase, slot);
  if (!phase.outputs.empty())
    storeAll(phase, slots);
}

/// Whole steps of all threads with several vectors in flight, then what is
/// left, a vector a thread.
void RowsEmitter::emitLoops(const RowPhase &phase) {
  SmallVector<Value> accumulators;
  for (Operation *reduction : phase.reductions)
    accumulators.push_back(e.identity(reduction, lanes));
  size_t reductions = accumulators.size();
  auto sweep = [&](Value begin, int64_t end, int64_t step, unsigned count) {
    accumulators.append(largest);
    scf::ForOp loop = e.loop(begin, e.i32(end), e.i32(step), accumulators);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(loop.getBody());
    if (accumulators.empty())
      e.b.setInsertionPoint(loop.getBody()->getTerminator());
    ValueRange carried = loop.getRegionIterArgs();
    SmallVector<Value> next(carried.take_front(reductions));
    largest.assign(carried.begin() + reductions, carried.end());
    std::vector<Scope> scopes(count);
    for (unsigned k = 0; k < count; ++k) {
      prepare(scopes[k],
              e.add(loop.getInductionVar(), e.i32(int64_t(k) * shape.threads)));
      accumulateInto(phase, scopes[k], Value(), next);
      addToSteps(phase, scopes[k]);
    }
    if (!phase.outputs.empty())
      storeAll(phase, scopes);
    next.append(largest);
    if (!next.empty())
      scf::YieldOp::create(e.b, e.loc, next);
    ValueRange results = loop.getResults();
    accumulators.assign(results.begin(), results.begin() + reductions);
    largest.assign(results.begin() + reductions, results.end());
  };
  int64_t step = int64_t(shape.threads) * shape.slots;
  int64_t whole = vectors / step * step;
  if (whole > 0)
    sweep(member, whole, step, shape.slots);
  if (whole < vectors)
    sweep(e.add(member, e.i32(whole)), vectors, shape.threads, 1);
  reduce(phase, accumulators);
}

void RowsEmitter::reduce(const RowPhase &phase, ArrayRef<Value> accumulators) {
  if (phase.reductions.empty())
    return;
  SmallVector<Value> totals;
  for (auto [reduction, accumulator] :
       llvm::zip_equal(phase.reductions, accumulators))
    totals.push_back(e.combineWarp(reduction,
                                   e.combineLanes(reduction, accumulator),
                                   std::min(shape.threads, kWarp)));
  if (shape.threads > kWarp)
    joinWarps(phase, totals);
  auto one = VectorType::get(1, e.b.getF32Type());
  for (auto [reduction, total] : llvm::zip_equal(phase.reductions, totals))
    scalars.values[reduction->getResult(0)] =
        finishReduction(e.b, e.loc, reduction,
                        vector::BroadcastOp::create(e.b, e.loc, one, total),
                        e.kernel.getRowLength());
}

/// Each reduction has its own part of shared memory, so that one barrier is
/// enough; all warps join the parts in the same order.
void RowsEmitter::joinWarps(const RowPhase &phase,
                            MutableArrayRef<Value> totals) {
  unsigned warps = shape.threads / kWarp;
  unsigned together = llvm::PowerOf2Ceil(warps);
  Value warp = e.div(e.thread, kWarp), lane = e.rem(e.thread, kWarp);
  Type f32 = e.b.getF32Type();
  auto slotOf = [&](unsigned r, Value at) {
    Value slot = e.add(at, e.i32((sharedUsed + r) * int64_t(kWarp)));
    return e.body.getMemory().advance(shared, e.index(slot), 1, f32);
  };
  Value first = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                      lane, e.i32(0));
  e.when(first, [&] {
    for (auto [r, total] : llvm::enumerate(totals))
      LLVM::StoreOp::create(e.b, e.loc, total, slotOf(r, warp));
  });
  e.barrier();
  Value part = e.rem(lane, together), exists;
  if (together != warps) {
    exists = e.less(part, e.i32(warps));
    part = arith::SelectOp::create(e.b, e.loc, exists, part, e.i32(0));
  }
  for (auto [r, reduction] : llvm::enumerate(phase.reductions)) {
    Value value = LLVM::LoadOp::create(e.b, e.loc, f32, slotOf(r, part));
    if (exists)
      value = arith::SelectOp::create(
          e.b, e.loc, exists, value,
          vector::ExtractOp::create(e.b, e.loc, e.identity(reduction, 1),
                                    int64_t(0)));
    totals[r] = e.combineWarp(reduction, value, together);
  }
  sharedUsed += phase.reductions.size();
}

/// Results of one element a row, which never lie where an operand lies
/// (exec-reuse-in-place).
void RowsEmitter::storeScalars() {
  if (scalarOutputs.empty())
    return;
  Value first;
  if (shape.threads > 1)
    first = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, member,
                                  e.i32(0));
  if (first && rowValid)
    first = arith::AndIOp::create(e.b, e.loc, first, rowValid);
  e.when(first ? first : rowValid, [&] {
    for (unsigned output : scalarOutputs)
      e.body.storeOutput(output, scalars);
  });
}

//===----------------------------------------------------------------------===//
// Sums of columns
//===----------------------------------------------------------------------===//

/// All rows of the block's chunk, then what they sum up to.
void RowsEmitter::runOverChunk() {
  int64_t rows = e.kernel.getRowCount(), chunk = rowsPerChunk(e.kernel);
  int64_t together = shape.rowsPerBlock();
  for (Operation *sum : columnSums)
    columnTotals.append(shape.slots, e.identity(sum, lanes));
  Value begin = e.mul(e.block, chunk);
  Value end = arith::MinUIOp::create(e.b, e.loc, e.add(begin, e.i32(chunk)),
                                     e.i32(rows));
  SmallVector<Value> carried = columnTotals;
  carried.append(largest);
  scf::ForOp loop = e.loop(begin, end, e.i32(together), carried);
  // What columns have, then tensors.
  auto take = [&](ValueRange values) {
    ValueRange sums = values.take_front(columnTotals.size()),
               sizes = values.take_back(largest.size());
    columnTotals.assign(sums.begin(), sums.end());
    largest.assign(sizes.begin(), sizes.end());
  };
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(loop.getBody());
    take(loop.getRegionIterArgs());
    Value row = loop.getInductionVar();
    if (group) {
      row = e.add(row, group);
      if (chunk % together != 0 || rows % chunk != 0)
        row = existing(row, end);
    }
    emitRow(row);
    // The next row writes what warps may still read of this one.
    if (sharedUsed > 0)
      e.barrier();
    carried = columnTotals;
    carried.append(largest);
    scf::YieldOp::create(e.b, e.loc, carried);
  }
  take(loop.getResults());
  if (group)
    joinTogether();
  storePartials();
}

void RowsEmitter::addToColumns(const RowPhase &phase) {
  for (Operation *sum : phase.columnSums) {
    size_t first = (llvm::find(columnSums, sum) - columnSums.begin()) *
                   size_t(shape.slots);
    for (auto [k, slot] : llvm::enumerate(slots)) {
      Value vector = e.body.emit(sum->getOperand(0), slot);
      if (rowValid)
        vector = arith::SelectOp::create(e.b, e.loc, rowValid, vector,
                                         e.identity(sum, lanes));
      Value &total = columnTotals[first + k];
      total = e.combine(sum, total, vector);
    }
  }
}

/// Adds up what the threads have that walk over the same columns, in order, so
/// that the first of them have the chunk's sums.
void RowsEmitter::joinTogether() {
  Type f32 = e.b.getF32Type();
  VectorMemory &memory = e.body.getMemory();
  int64_t held = int64_t(shape.slots) * lanes; // columns of a thread
  unsigned alignment = std::min<unsigned>(kAccessBytes, lanes * sizeof(float));
  Value all = e.sharedArray(int64_t(columnSums.size()) * shape.threads * held);
  auto placeOf = [&](size_t i) {
    Value at = e.add(e.mul(member, int64_t(columnSums.size()) * held),
                     e.i32(int64_t(i) * lanes));
    return memory.advance(all, e.index(at), 1, f32);
  };
  auto load = [&](size_t i) {
    return memory.load(placeOf(i), f32, lanes, 1, alignment);
  };
  // The threads of one row after those of another.
  auto inTurn = [&](Value turn, bool first) {
    Value mine = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                       turn, group);
    e.when(mine, [&] {
      for (auto [i, total] : llvm::enumerate(columnTotals)) {
        Value sum =
            first ? total
                  : e.combine(columnSums[i / shape.slots], load(i), total);
        memory.store(sum, placeOf(i), f32, 1, alignment);
      }
    });
    e.barrier();
  };
  inTurn(e.i32(0), /*first=*/true);
  scf::ForOp loop = e.loop(e.i32(1), e.i32(shape.rowsPerBlock()), e.i32(1));
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPoint(loop.getBody()->getTerminator());
    inTurn(loop.getInductionVar(), /*first=*/false);
  }
  for (size_t i = 0; i < columnTotals.size(); ++i)
    columnTotals[i] = load(i);
}

void RowsEmitter::storePartials() {
  Value mine;
  if (group)
    mine = e.less(group, e.i32(1));
  for (auto [k, vector] : llvm::enumerate(slotVectors)) {
    Value stores = slotActive[k];
    if (stores && mine)
      stores = arith::AndIOp::create(e.b, e.loc, stores, mine);
    e.when(stores ? stores : mine, [&, k = k, vector = vector] {
      for (size_t r = 0; r < columnSums.size(); ++r)
        e.body.getMemory().store(
            columnTotals[r * shape.slots + k],
            partialOf(e, r, e.block, e.mul(vector, lanes)), e.b.getF32Type(), 1,
            std::min<unsigned>(kAccessBytes, lanes * sizeof(float)));
    });
  }
}

FailureOr<DeviceLaunch>
kernels::emitDeviceCountedRows(OpBuilder &b, Location loc, StringRef name,
                               const DeviceAccess &access,
                               const DeviceTarget &target) {
  RowPlan plan(access.kernel);
  RowShape shape = chooseShape(plan, access, target);
  DeviceEmitter e(b, loc, name, access, shape.blockThreads(),
                  /*hasWorkspace=*/false, /*hasCount=*/true);
  RowsEmitter(e, plan, shape).run();
  return e.finish(/*blocks=*/0,
                  access.kernel.getRowLength() * shape.rowsPerBlock());
}

FailureOr<DeviceLaunches> kernels::emitDeviceRows(OpBuilder &b, Location loc,
                                                  StringRef name,
                                                  const DeviceAccess &access,
                                                  const DeviceTarget &target) {
  if (access.kernel.getRowCount() > INT32_MAX ||
      access.kernel.getRowLength() > INT32_MAX)
    return failure();
  RowPlan plan(access.kernel);
  RowShape shape = chooseShape(plan, access, target);
  DeviceEmitter e(b, loc, name, access, shape.blockThreads(), shape.walks);
  RowsEmitter(e, plan, shape).run();
  FailureOr<DeviceLaunch> launch =
      e.finish(shape.walks ? columnChunksOf(access.kernel)
                           : llvm::divideCeil(access.kernel.getRowCount(),
                                              shape.rowsPerBlock()));
  if (failed(launch))
    return failure();
  DeviceLaunches launches{*launch};
  if (shape.walks && failed(emitColumnTotals(b, loc, (name + "_totals").str(),
                                             access, launches)))
    return failure();
  return launches;
}
