// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Column kernels on a GPU, in two launches without atomics: blocks of columns
// and chunks of rows give partial sums, then each column's are added in order.
// What is added to what depends on the shape alone.

#include "DeviceEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

static constexpr int64_t kThreads = 256;
/// Blocks of the first launch that fill a GPU, and the most parts of a column.
static constexpr int64_t kFillingBlocks = 132 * 4;
static constexpr int64_t kMostChunks = 256;
/// Blocks of a row kernel that sums columns besides, for each processor: as
/// many as have kWalkingThreads together. With less at work, each row's way to
/// memory and back shows (two blocks of 96 threads, for rows of 768 elements:
/// 1.2 TB/s on an H100).
static constexpr int64_t kProcessors = 132, kWalkingThreads = 1024;
static constexpr int64_t kLeastWalking = 2, kMostWalking = 8;
/// Rows of a thread below which another chunk is not worth its partial sums.
static constexpr int64_t kLeastRows = 4;
/// Bytes that a thread should have asked for before it waits.
static constexpr int64_t kBytesInFlight = 128;

/// Threads of a block side by side: a power of two.
static int64_t threadsAcross(int64_t columns, int64_t lanes) {
  int64_t vectors = llvm::divideCeil(columns, lanes);
  return llvm::PowerOf2Ceil(std::clamp<int64_t>(vectors, 1, kWarp));
}

/// Rows of a block of a row kernel. A row within a warp shares its block with
/// others, and two of those fill a processor.
static int64_t rowsPerWalk(const Kernel &kernel, int64_t lanes) {
  int64_t vectors = llvm::divideCeil(kernel.getRowLength(), lanes);
  int64_t warps = std::max<int64_t>(1, llvm::divideCeil(vectors, kWarp));
  int64_t blocks = std::clamp(kWalkingThreads / (warps * kWarp), kLeastWalking,
                              kMostWalking);
  if (warps == 1)
    blocks = kLeastWalking;
  return std::max<int64_t>(
      kLeastRows, llvm::divideCeil(kernel.getRowCount(), kProcessors * blocks));
}

int64_t kernels::rowsPerChunk(const Kernel &kernel) {
  int64_t lanes = 4, columns = kernel.getRowLength();
  for (const BufferLayout &layout : kernel.getBuffers())
    if (layout.strides.back() == 1 &&
        layout.elementType.getIntOrFloatBitWidth() <= 16)
      lanes = 8;
  if (kernel.getMode() == Kernel::Mode::Rows)
    return rowsPerWalk(kernel, lanes);
  int64_t across = threadsAcross(columns, lanes);
  int64_t blocks = llvm::divideCeil(columns, lanes * across);
  int64_t down = kThreads / across, rows = kernel.getRowCount();
  int64_t chunks = std::min(
      {kFillingBlocks / blocks, kMostChunks, rows / (down * kLeastRows)});
  return llvm::divideCeil(rows, std::max<int64_t>(1, chunks));
}

int64_t kernels::columnChunksOf(const Kernel &kernel) {
  return llvm::divideCeil(kernel.getRowCount(), rowsPerChunk(kernel));
}

int64_t kernels::deviceWorkspaceBytes(const Kernel &kernel) {
  int64_t sums = kernel.getColumnSums().size();
  if (sums == 0)
    return 0;
  int64_t chunks = columnChunksOf(kernel);
  if (kernel.getMode() == Kernel::Mode::Columns && chunks == 1)
    return 0;
  return sums * chunks * kernel.getRowLength() * int64_t(sizeof(float));
}

Value kernels::partialOf(DeviceEmitter &e, unsigned sum, Value chunk,
                         Value column) {
  Value row = e.add(e.index(chunk), e.constant(sum * columnChunksOf(e.kernel)));
  Value at = e.add(e.mul(row, e.kernel.getRowLength()), e.index(column));
  return e.body.getMemory().advance(e.workspace, at, 1, e.b.getF32Type());
}

namespace {

/// What both launches share: a block of threads, `across` by `down`.
class ColumnBlock {
protected:
  ColumnBlock(DeviceEmitter &e, int64_t across, int64_t down)
      : e(e), reductions(e.kernel.getColumnSums()), across(across), down(down),
        chunks(columnChunksOf(e.kernel)), columns(e.kernel.getRowLength()) {
    x = e.rem(e.thread, across);
    y = e.div(e.thread, across);
  }
  using Step =
      llvm::function_ref<void(ArrayRef<Value>, MutableArrayRef<Value>)>;
  /// begin, begin + stride, … below end: `unroll` at a time, then one by one.
  SmallVector<Value> sweep(Value begin, Value end, int64_t stride,
                           unsigned unroll, unsigned width, Step step);
  /// Element number `thread` of the block's columns, joined over `down`.
  SmallVector<Value> joinDown(ArrayRef<Value> accumulators, unsigned width);
  /// From a column's totals to the kernel's results.
  void finishColumn(Value column, ArrayRef<Value> totals);

  DeviceEmitter &e;
  SmallVector<Operation *> reductions;
  int64_t across, down, chunks, columns;
  Value x, y;
};

/// Sums rows.
class ColumnSums : ColumnBlock {
public:
  ColumnSums(DeviceEmitter &e, int64_t across, int64_t down)
      : ColumnBlock(e, across, down), lanes(e.access.lanes),
        alignments(e.access.alignmentsFor(lanes)) {}
  void run();

private:
  struct Row {
    SmallVector<Value> leading, addresses;
    Scope scalars, scope;
  };
  void addRows(ArrayRef<Value> rows, MutableArrayRef<Value> accumulators);
  void place(Row &place, Value row);

  unsigned lanes;
  SmallVector<unsigned> alignments;
  Value index; // of the first of the thread's columns
};

/// Adds chunks.
class ColumnTotals : ColumnBlock {
public:
  ColumnTotals(DeviceEmitter &e, int64_t across, int64_t down)
      : ColumnBlock(e, across, down) {}
  void run();
};

} // namespace

SmallVector<Value> ColumnBlock::sweep(Value begin, Value end, int64_t stride,
                                      unsigned unroll, unsigned width,
                                      Step step) {
  SmallVector<Value> accumulators;
  for (Operation *reduction : reductions)
    accumulators.push_back(e.identity(reduction, width));
  auto run = [&](Value from, Value to, unsigned count) {
    scf::ForOp loop = e.loop(from, to, e.i32(stride * count), accumulators);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(loop.getBody());
    SmallVector<Value> next(loop.getRegionIterArgs()), items;
    for (unsigned k = 0; k < count; ++k)
      items.push_back(e.add(loop.getInductionVar(), e.i32(k * stride)));
    step(items, next);
    scf::YieldOp::create(e.b, e.loc, next);
    accumulators.assign(loop.getResults().begin(), loop.getResults().end());
  };
  if (unroll > 1) {
    // Whole steps: as long as the last of them lies before the end.
    Value left = arith::SubIOp::create(e.b, e.loc, end, begin);
    left = arith::MaxSIOp::create(e.b, e.loc, left, e.i32(0));
    Value items = e.div(e.add(left, e.i32(stride - 1)), stride);
    Value to =
        e.add(begin, e.mul(e.div(items, unroll), int64_t(unroll) * stride));
    run(begin, to, unroll);
    begin = to;
  }
  run(begin, end, 1);
  return accumulators;
}

SmallVector<Value> ColumnBlock::joinDown(ArrayRef<Value> accumulators,
                                         unsigned width) {
  int64_t rowElements = across * width;
  Type f32 = e.b.getF32Type();
  VectorMemory &memory = e.body.getMemory();
  Value shared = e.sharedArray(down * rowElements);
  Value mine = memory.advance(
      shared, e.index(e.add(e.mul(y, rowElements), e.mul(x, width))), 1, f32);
  Value element = e.thread;
  if (rowElements < across * down)
    element =
        arith::MinUIOp::create(e.b, e.loc, element, e.i32(rowElements - 1));
  SmallVector<Value> totals;
  for (auto [reduction, accumulator] :
       llvm::zip_equal(reductions, accumulators)) {
    if (!totals.empty())
      e.barrier();
    memory.store(accumulator, mine, f32, 1,
                 std::min<unsigned>(kAccessBytes, width * sizeof(float)));
    e.barrier();
    Value total;
    for (int64_t row = 0; row < down; ++row) {
      Value at = memory.advance(
          shared, e.index(e.add(element, e.i32(row * rowElements))), 1, f32);
      Value part = memory.load(at, f32, 1, 1);
      total = total ? e.combine(reduction, total, part) : part;
    }
    totals.push_back(total);
  }
  return totals;
}

void ColumnBlock::finishColumn(Value column, ArrayRef<Value> totals) {
  Scope scope;
  scope.addresses = e.bases;
  scope.index = e.index(column);
  for (auto [reduction, total] : llvm::zip_equal(reductions, totals))
    scope.values[reduction->getResult(0)] =
        finishReduction(e.b, e.loc, reduction, total, e.kernel.getRowCount());
  // Beside rows, what has been yielded of them is stored by then.
  for (auto [i, value] : llvm::enumerate(e.kernel.getYielded()))
    if (scope.values.contains(value))
      e.body.storeOutput(i, scope);
}

void ColumnSums::place(Row &place, Value row) {
  place.leading = e.delinearize(row);
  place.addresses = e.body.advanceAll(e.bases, place.leading);
  Scope &scalars = place.scalars;
  scalars.addresses = place.addresses;
  scalars.leading = place.leading;
  scalars.index = e.constant(0);
  Scope &scope = place.scope;
  scope.width = lanes;
  scope.index = index;
  scope.alignments = alignments;
  scope.addresses = place.addresses;
  scope.leading = place.leading;
  scope.scalars = &scalars.values;
}

/// Adds some rows, all of them loaded before the first is used.
void ColumnSums::addRows(ArrayRef<Value> rows,
                         MutableArrayRef<Value> accumulators) {
  std::vector<std::unique_ptr<Row>> places;
  DenseSet<Value> after; // depends on a reduction
  for (Value row : rows) {
    places.push_back(std::make_unique<Row>());
    place(*places.back(), row);
  }
  auto feeds = [&](BlockArgument argument) {
    SmallVector<Operation *> work(argument.getUsers());
    for (; !work.empty();) {
      Operation *op = work.pop_back_val();
      if (nn::isReduction(op))
        return true;
      if (op->getNumResults() != 0)
        work.append(op->user_begin(), op->user_end());
    }
    return false;
  };
  for (BlockArgument argument : e.kernel.getBody().getArguments()) {
    if (!feeds(argument))
      continue;
    bool uniform = e.kernel.isUniform(argument);
    for (auto &place : places)
      e.body.emit(argument, uniform ? place->scalars : place->scope);
  }
  for (Operation &op : e.kernel.getBody().without_terminator()) {
    bool later = nn::isReduction(&op) ||
                 llvm::any_of(op.getOperands(), [&](Value operand) {
                   return after.contains(operand);
                 });
    if (later)
      after.insert(op.getResult(0));
    else if (e.kernel.isUniform(op.getResult(0)))
      for (auto &place : places)
        e.body.emit(op.getResult(0), place->scalars);
  }
  for (auto &place : places)
    for (auto [reduction, accumulator] :
         llvm::zip_equal(reductions, accumulators))
      accumulator =
          e.combine(reduction, accumulator,
                    e.body.emit(reduction->getOperand(0), place->scope));
}

void ColumnSums::run() {
  int64_t vectors = columns / lanes, rows = e.kernel.getRowCount();
  int64_t blocksAcross = llvm::divideCeil(vectors, across);
  Value chunk = e.div(e.block, blocksAcross);
  Value strip = e.mul(e.rem(e.block, blocksAcross), across);
  Value vector = e.add(strip, x);
  bool ragged = vectors % across != 0;
  if (ragged)
    vector = arith::MinUIOp::create(e.b, e.loc, vector, e.i32(vectors - 1));
  index = e.index(e.mul(vector, lanes));

  int64_t chunkRows = rowsPerChunk(e.kernel);
  Value begin = e.mul(chunk, chunkRows);
  Value end = arith::MinUIOp::create(e.b, e.loc, e.add(begin, e.i32(chunkRows)),
                                     e.i32(rows));
  int64_t bytes =
      std::max<int64_t>(1, e.access.bytesPerLane() * e.access.lanes);
  unsigned unroll = std::clamp<int64_t>(kBytesInFlight / bytes, 1, 4);
  SmallVector<Value> accumulators =
      sweep(e.add(begin, y), end, down, unroll, lanes,
            [&](ArrayRef<Value> items, MutableArrayRef<Value> next) {
              addRows(items, next);
            });
  SmallVector<Value> totals = joinDown(accumulators, lanes);

  Value column = e.add(e.mul(strip, lanes), e.thread), exists;
  auto require = [&](Value condition) {
    exists =
        exists
            ? arith::AndIOp::create(e.b, e.loc, exists, condition).getResult()
            : condition;
  };
  if (across * lanes < kThreads)
    require(e.less(e.thread, e.i32(across * lanes)));
  if (ragged)
    require(e.less(column, e.i32(columns)));
  e.when(exists, [&] {
    if (chunks == 1)
      return finishColumn(column, totals);
    for (auto [r, total] : llvm::enumerate(totals))
      e.body.getMemory().store(total, partialOf(e, r, chunk, column),
                               e.b.getF32Type(), 1);
  });
}

void ColumnTotals::run() {
  Value column = e.add(e.mul(e.block, across), x), safe = column, exists;
  if (columns % across != 0) {
    exists = e.less(column, e.i32(columns));
    safe = arith::MinUIOp::create(e.b, e.loc, column, e.i32(columns - 1));
  }
  SmallVector<Value> accumulators = sweep(
      y, e.i32(chunks), down, 4, 1,
      [&](ArrayRef<Value> items, MutableArrayRef<Value> next) {
        SmallVector<Value> parts;
        for (Value chunk : items)
          for (unsigned r = 0; r < reductions.size(); ++r)
            parts.push_back(e.body.getMemory().load(
                partialOf(e, r, chunk, safe), e.b.getF32Type(), 1, 1));
        const Value *part = parts.begin();
        for (size_t item = 0; item < items.size(); ++item)
          for (auto [reduction, total] : llvm::zip_equal(reductions, next))
            total = e.combine(reduction, total, *part++);
      });
  SmallVector<Value> totals = joinDown(accumulators, 1);
  Value first = e.less(e.thread, e.i32(across));
  if (exists)
    first = arith::AndIOp::create(e.b, e.loc, first, exists);
  e.when(first, [&] { finishColumn(column, totals); });
}

FailureOr<DeviceLaunches>
kernels::emitDeviceColumns(OpBuilder &b, Location loc, StringRef name,
                           const DeviceAccess &access,
                           const DeviceTarget &target) {
  const Kernel &kernel = access.kernel;
  int64_t columns = kernel.getRowLength(), chunks = columnChunksOf(kernel);
  if (kernel.getRowCount() > INT32_MAX / 2 || columns > INT32_MAX / 2)
    return failure();
  int64_t across = threadsAcross(columns, access.lanes);
  DeviceEmitter sums(b, loc, name, access, kThreads, chunks > 1);
  ColumnSums(sums, across, kThreads / across).run();
  FailureOr<DeviceLaunch> launch =
      sums.finish(llvm::divideCeil(columns, access.lanes * across) * chunks);
  if (failed(launch))
    return failure();
  DeviceLaunches launches{*launch};
  if (chunks > 1 && failed(emitColumnTotals(b, loc, (name + "_totals").str(),
                                            access, launches)))
    return failure();
  return launches;
}

LogicalResult kernels::emitColumnTotals(OpBuilder &b, Location loc,
                                        StringRef name,
                                        const DeviceAccess &access,
                                        DeviceLaunches &launches) {
  int64_t down = columnChunksOf(access.kernel) > 64 ? 16 : 8;
  DeviceEmitter totals(b, loc, name, access, kWarp * down,
                       /*hasWorkspace=*/true);
  ColumnTotals(totals, kWarp, down).run();
  FailureOr<DeviceLaunch> launch =
      totals.finish(llvm::divideCeil(access.kernel.getRowLength(), kWarp));
  if (failed(launch))
    return failure();
  launches.push_back(*launch);
  return success();
}
