// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise GPU kernels, contiguous or strided: the iteration space as one
// run of vectors, some of them in each thread.

#include "DeviceEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

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

namespace {

class ElementwiseEmitter {
public:
  explicit ElementwiseEmitter(DeviceEmitter &e)
      : e(e), lanes(e.access.lanes), alignments(e.access.alignmentsFor(lanes)) {
    flat = e.kernel.getMode() == Kernel::Mode::Flat;
    if (flat)
      emitUniform(common, e.bases, {});
    largest = e.noLargest();
  }

  /// All outputs at some vectors. Every load comes before the first store: an
  /// output may lie where an input lies.
  void emitVectors(ArrayRef<Value> numbers);
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
  void emitTiles(MutableArrayRef<std::unique_ptr<Tile>> tiles);
  void storeOutput(unsigned i, Tile &tile);

  DeviceEmitter &e;
  unsigned lanes;
  SmallVector<unsigned> alignments;
  bool flat;
  Scope common; // uniform values of a flat kernel
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
  tile.scope.width = lanes;
  tile.scope.alignments = alignments;
  if (flat) {
    tile.scope.index = e.index(e.mul(number, lanes));
    tile.scope.addresses = e.bases;
    tile.scope.scalars = &common.values;
    return;
  }
  int64_t rowVectors = e.kernel.getRowLength() / lanes;
  Value row = e.div(number, rowVectors), column = e.rem(number, rowVectors);
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
      if (e.kernel.isStored(value))
        storeOutput(i, *tile);
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
