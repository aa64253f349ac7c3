// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise GPU kernels, contiguous or strided: the iteration space as one
// run of vectors, some of them in each thread. Where matrices of 8 bits are
// written transposed, a thread has vectors of rows below each other.

#include "DeviceEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

/// Threads of a block.
static constexpr int64_t kThreads = 256;
/// Bytes that a thread should have asked for before it waits.
static constexpr int64_t kBytesInFlight = 64;
/// Blocks for each multiprocessor that should remain when threads take more
/// vectors.
static constexpr int64_t kBlocksEach = 8;
/// Rows of a thread that writes columns of bytes, and how many threads of a
/// warp are below each other: a column of 32 bytes, rows of 128 of bf16.
static constexpr int64_t kColumnRows = 8, kThreadsDown = 4;

namespace {

class ElementwiseEmitter {
public:
  explicit ElementwiseEmitter(DeviceEmitter &e)
      : e(e), lanes(e.access.lanes), alignments(e.access.alignmentsFor(lanes)) {
    flat = e.kernel.getMode() == Kernel::Mode::Flat;
    if (flat)
      emitUniform(common, e.bases, {});
    largest = e.noLargest();
    for (unsigned i = 0; i < e.kernel.getYielded().size(); ++i)
      transposed.push_back(isTransposed(i));
  }

  /// All outputs at some vectors. Every load comes before the first store: an
  /// output may lie where an input lies.
  void emitVectors(ArrayRef<Value> numbers);
  /// All outputs at kColumnRows rows of a vector.
  void emitColumns(Value number);
  bool writesColumns() const { return transposed.any(); }
  /// All outputs at one element of a flat kernel.
  void emitElement(Value index);
  /// A vector of each number from begin to end.
  void emitLoop(Value begin, Value end, Value stride);
  using Emit = llvm::function_ref<void()>;
  void emitWhen(Value condition, Emit then) {
    emitEither(condition, then, [] {});
  }
  void emitEither(Value condition, Emit then, Emit otherwise);

  /// Of each step of whole tensors, what the thread has seen so far. A branch
  /// or a loop begins with what is known in front of it and hands on more.
  SmallVector<Value> largest;

private:
  struct Tile {
    SmallVector<Value> leading, addresses;
    Scope scalars, scope;
  };
  void emitUniform(Scope &scalars, ArrayRef<Value> addresses,
                   ArrayRef<Value> leading);
  void place(Tile &tile, Value number);
  void place(Tile &tile, Value row, Value column);
  bool isTransposed(unsigned output) const;
  void storeColumns(unsigned output, Value row, Value column,
                    ArrayRef<Value> rows);
  void emitTiles(MutableArrayRef<std::unique_ptr<Tile>> tiles);
  void storeOutput(unsigned i, Tile &tile);

  DeviceEmitter &e;
  unsigned lanes;
  SmallVector<unsigned> alignments;
  bool flat;
  Scope common;                    // uniform values of a flat kernel
  llvm::SmallBitVector transposed; // by output
};

} // namespace

void ElementwiseEmitter::emitUniform(Scope &scalars, ArrayRef<Value> addresses,
                                     ArrayRef<Value> leading) {
  scalars.addresses = addresses;
  scalars.leading = leading;
  scalars.index = e.constant(0);
  e.setParameters(scalars);
  for (BlockArgument argument : e.kernel.getBody().getArguments())
    if (e.kernel.isUniform(argument) && !argument.use_empty())
      e.body.emit(argument, scalars);
  for (Operation &op : e.kernel.getBody().without_terminator())
    if (e.kernel.isUniform(op.getResult(0)))
      e.body.emit(op.getResult(0), scalars);
}

void ElementwiseEmitter::place(Tile &tile, Value number) {
  if (flat) {
    tile.scope.width = lanes;
    tile.scope.alignments = alignments;
    tile.scope.index = e.index(e.mul(number, lanes));
    tile.scope.addresses = e.bases;
    tile.scope.scalars = &common.values;
    return;
  }
  int64_t rowVectors = e.kernel.getRowLength() / lanes;
  place(tile, e.div(number, rowVectors), e.rem(number, rowVectors));
}

void ElementwiseEmitter::place(Tile &tile, Value row, Value column) {
  tile.scope.width = lanes;
  tile.scope.alignments = alignments;
  tile.scope.index = e.index(e.mul(column, lanes));
  tile.leading = e.delinearize(row);
  tile.addresses = e.body.advanceAll(e.bases, tile.leading);
  emitUniform(tile.scalars, tile.addresses, tile.leading);
  tile.scope.addresses = tile.addresses;
  tile.scope.leading = tile.leading;
  tile.scope.scalars = &tile.scalars.values;
}

void ElementwiseEmitter::emitTiles(
    MutableArrayRef<std::unique_ptr<Tile>> tiles) {
  for (auto &tile : tiles)
    for (BlockArgument argument : e.kernel.getBody().getArguments())
      if (!e.kernel.isUniform(argument) && !argument.use_empty())
        e.body.emit(argument, tile->scope);
  for (auto &tile : tiles) {
    for (Value value : e.kernel.getYielded())
      if (e.kernel.isStored(value) && !e.kernel.isUniform(value))
        e.body.emit(value, tile->scope);
    for (auto [step, value] : llvm::zip_equal(e.steps, largest))
      value = e.addToLargest(step, tile->scope, value);
    for (auto [i, value] : llvm::enumerate(e.kernel.getYielded()))
      if (e.kernel.isStored(value) && !transposed[i])
        storeOutput(i, *tile);
  }
}

/// Of bytes, along whose columns a thread's rows lie side by side.
bool ElementwiseEmitter::isTransposed(unsigned output) const {
  const BufferLayout &layout = e.kernel.getOutput(output);
  return !flat && layout.strides.size() == 2 && layout.strides[0] == 1 &&
         layout.strides[1] > 1 &&
         layout.elementType.getIntOrFloatBitWidth() == 8 &&
         e.kernel.getRowCount() % kColumnRows == 0;
}

/// Threads of a warp have a tile where the matrix is cut into such.
void ElementwiseEmitter::emitColumns(Value number) {
  int64_t across = kWarp / kThreadsDown;
  int64_t groups = e.kernel.getRowCount() / kColumnRows;
  int64_t vectors = e.kernel.getRowLength() / lanes;
  Value group = e.div(number, vectors), column = e.rem(number, vectors);
  if (groups % kThreadsDown == 0 && vectors % across == 0) {
    Value tile = e.div(number, kWarp), lane = e.rem(number, kWarp);
    group = e.add(e.mul(e.div(tile, vectors / across), kThreadsDown),
                  e.rem(lane, kThreadsDown));
    column = e.add(e.mul(e.rem(tile, vectors / across), across),
                   e.div(lane, kThreadsDown));
  }
  Value first = e.mul(group, kColumnRows);
  int64_t bytes = std::max<int64_t>(1, e.access.bytesPerLane() * lanes);
  int64_t together = llvm::bit_floor<uint64_t>(
      std::clamp<int64_t>(2 * kBytesInFlight / bytes, 1, kColumnRows));
  std::vector<SmallVector<Value>> columns(transposed.size());
  for (int64_t row = 0; row < kColumnRows; row += together) {
    SmallVector<std::unique_ptr<Tile>> tiles;
    for (int64_t k = 0; k < together; ++k) {
      tiles.push_back(std::make_unique<Tile>());
      place(*tiles.back(), e.add(first, e.i32(row + k)), column);
    }
    emitTiles(tiles);
    for (auto &tile : tiles)
      for (unsigned i : transposed.set_bits())
        columns[i].push_back(e.body.getMemory().toStored(
            e.body.emit(e.kernel.getYielded()[i], tile->scope),
            e.kernel.getOutput(i).elementType));
  }
  for (unsigned i : transposed.set_bits())
    storeColumns(i, first, e.mul(column, lanes), columns[i]);
}

void ElementwiseEmitter::storeColumns(unsigned output, Value row, Value column,
                                      ArrayRef<Value> rows) {
  const BufferLayout &layout = e.kernel.getOutput(output);
  unsigned buffer = e.kernel.getNumInputs() + output;
  VectorMemory &memory = e.body.getMemory();
  Value address =
      memory.advance(e.bases[buffer], e.index(row), 1, layout.elementType);
  unsigned alignment = std::gcd<uint64_t>(
      std::gcd<uint64_t>(e.access.starts[buffer], layout.strides[1]),
      kColumnRows);
  auto type = VectorType::get(kColumnRows, e.b.getI8Type());
  for (unsigned lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> bytes;
    for (Value vector : rows)
      bytes.push_back(
          vector::ExtractOp::create(e.b, e.loc, vector, int64_t(lane)));
    LLVM::StoreOp::create(
        e.b, e.loc, vector::FromElementsOp::create(e.b, e.loc, type, bytes),
        memory.advance(address, e.index(e.add(column, e.i32(lane))),
                       layout.strides[1], layout.elementType),
        alignment);
  }
}

/// A result of one element a row is stored by who has the row's first element.
void ElementwiseEmitter::storeOutput(unsigned i, Tile &tile) {
  if (e.kernel.getOutput(i).strides.back() != 0)
    return e.body.storeOutput(i, tile.scope);
  Value first = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                      tile.scope.index, e.constant(0));
  e.when(first, [&] { e.body.storeOutput(i, flat ? common : tile.scalars); });
}

void ElementwiseEmitter::emitVectors(ArrayRef<Value> numbers) {
  SmallVector<std::unique_ptr<Tile>> tiles;
  for (Value number : numbers) {
    tiles.push_back(std::make_unique<Tile>());
    place(*tiles.back(), number);
  }
  emitTiles(tiles);
}

void ElementwiseEmitter::emitElement(Value index) {
  SmallVector<std::unique_ptr<Tile>> tiles;
  tiles.push_back(std::make_unique<Tile>());
  Scope &scope = tiles.front()->scope;
  scope.index = index;
  scope.addresses = e.bases;
  scope.scalars = &common.values;
  emitTiles(tiles);
}

void ElementwiseEmitter::emitLoop(Value begin, Value end, Value stride) {
  scf::ForOp loop = e.loop(begin, end, stride, largest);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToEnd(loop.getBody());
  if (largest.empty())
    e.b.setInsertionPoint(loop.getBody()->getTerminator());
  largest.assign(loop.getRegionIterArgs().begin(),
                 loop.getRegionIterArgs().end());
  emitVectors(loop.getInductionVar());
  if (!largest.empty())
    scf::YieldOp::create(e.b, e.loc, largest);
  largest.assign(loop.getResults().begin(), loop.getResults().end());
}

void ElementwiseEmitter::emitEither(Value condition, Emit then,
                                    Emit otherwise) {
  SmallVector<Value> before = largest;
  auto after = [&](Emit emit) {
    largest = before;
    emit();
    return largest;
  };
  largest = e.choose(
      condition, [&] { return after(then); }, [&] { return after(otherwise); });
}

/// How many vectors a thread takes at once.
static int64_t unrollOf(const DeviceAccess &access, int64_t vectors,
                        const DeviceTarget &target) {
  int64_t bytes = std::max<int64_t>(1, access.bytesPerLane() * access.lanes);
  int64_t unroll = std::clamp<int64_t>(kBytesInFlight / bytes, 1, 4);
  int64_t wanted = target.multiprocessors * kBlocksEach * kThreads;
  while (unroll > 1 && vectors / unroll < wanted)
    unroll /= 2;
  return unroll;
}

/// A kernel that writes columns.
static FailureOr<DeviceLaunches> emitColumnTiles(DeviceEmitter &e,
                                                 ElementwiseEmitter &emitter) {
  int64_t numbers = e.kernel.getRowCount() / kColumnRows *
                    e.kernel.getRowLength() / e.access.lanes;
  if (numbers > INT32_MAX - kThreads)
    return failure();
  Value number = e.add(e.mul(e.block, kThreads), e.thread);
  if (numbers % kThreads != 0)
    emitter.emitWhen(e.less(number, e.i32(numbers)),
                     [&] { emitter.emitColumns(number); });
  else
    emitter.emitColumns(number);
  e.storeSteps(emitter.largest);
  FailureOr<DeviceLaunch> launch =
      e.finish(llvm::divideCeil(numbers, kThreads));
  if (failed(launch))
    return failure();
  return DeviceLaunches{*launch};
}

FailureOr<DeviceLaunches>
kernels::emitDeviceElementwise(OpBuilder &b, Location loc, StringRef name,
                               const DeviceAccess &access,
                               const DeviceTarget &target) {
  const Kernel &kernel = access.kernel;
  int64_t lanes = access.lanes;
  int64_t elements = kernel.getRowCount() * kernel.getRowLength();
  int64_t vectors = elements / lanes, odd = elements % lanes;
  int64_t unroll = unrollOf(access, vectors, target);
  int64_t perBlock = kThreads * unroll;
  int64_t blocks = llvm::divideCeil(elements, perBlock * lanes);

  DeviceEmitter e(b, loc, name, access, kThreads);
  ElementwiseEmitter emitter(e);
  if (emitter.writesColumns())
    return emitColumnTiles(e, emitter);
  bool wide = blocks * perBlock * lanes > INT32_MAX;
  auto number = [&](Value i) { return wide ? e.index(i) : i; };
  auto constant = [&](int64_t v) { return wide ? e.constant(v) : e.i32(v); };
  Value first = e.add(e.mul(number(e.block), perBlock), number(e.thread));
  auto emitWhole = [&] {
    SmallVector<Value> numbers;
    for (int64_t k = 0; k < unroll; ++k)
      numbers.push_back(e.add(first, constant(k * kThreads)));
    emitter.emitVectors(numbers);
  };
  int64_t whole = elements / (perBlock * lanes);
  if (whole == blocks) {
    emitWhole();
  } else {
    // The last block has fewer vectors, and the odd elements.
    auto emitRest = [&] {
      if (vectors > whole * perBlock)
        emitter.emitLoop(first, constant(vectors), constant(kThreads));
      if (odd > 0)
        emitter.emitWhen(e.less(e.thread, e.i32(odd)), [&] {
          emitter.emitElement(
              e.add(e.index(e.thread), e.constant(vectors * lanes)));
        });
    };
    Value last = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                       e.block, e.i32(whole));
    if (whole == 0)
      emitRest();
    else
      emitter.emitEither(last, emitRest, emitWhole);
  }
  e.storeSteps(emitter.largest);
  FailureOr<DeviceLaunch> launch = e.finish(blocks, perBlock * lanes);
  if (failed(launch))
    return failure();
  return DeviceLaunches{*launch};
}

FailureOr<DeviceLaunch> kernels::emitDeviceCounted(OpBuilder &b, Location loc,
                                                   StringRef name,
                                                   const DeviceAccess &access,
                                                   const DeviceTarget &target) {
  if (access.kernel.getMode() == Kernel::Mode::Rows)
    return emitDeviceCountedRows(b, loc, name, access, target);
  DeviceEmitter e(b, loc, name, access, kThreads, /*hasWorkspace=*/false,
                  /*hasCount=*/true);
  ElementwiseEmitter emitter(e);
  int64_t lanes = access.lanes, perBlock = kThreads * lanes;
  // Slices need not begin at a multiple of a vector.
  Value low = e.constant(0);
  for (auto [i, layout] : llvm::enumerate(access.kernel.getBuffers()))
    if (layout.strides.back() != 0 && e.bases[i])
      low = arith::OrIOp::create(
          b, loc, low,
          LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), e.bases[i]));
  low = arith::AndIOp::create(b, loc, low, e.constant(kAccessBytes - 1));
  Value aligned = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, low,
                                        e.constant(0));
  Value begin = e.mul(e.index(e.block), perBlock);
  Value end = e.add(begin, e.constant(perBlock));
  Value whole =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, end, e.count);
  auto branch = scf::IfOp::create(
      b, loc, arith::AndIOp::create(b, loc, aligned, whole), true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenYield());
    emitter.emitVectors(
        e.add(e.mul(e.index(e.block), kThreads), e.index(e.thread)));
    b.setInsertionPoint(branch.elseYield());
    end = arith::MinUIOp::create(b, loc, end, e.count);
    scf::ForOp loop =
        e.loop(e.add(begin, e.index(e.thread)), end, e.constant(kThreads));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    emitter.emitElement(loop.getInductionVar());
  }
  return e.finish(/*blocks=*/0, perBlock);
}
