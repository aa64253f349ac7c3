// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of shapes of rows: idle lanes, barriers, threads, registers.

#include "DeviceRowShape.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

/// Registers of a thread that values of a row may take.
static constexpr unsigned kRowRegisters = 64;
/// Threads of a block that has several rows; and of one that walks over many.
static constexpr unsigned kSharedBlock = 128, kWalkingBlock = 512;
/// Most rows of a block side by side, whose sums of columns are joined.
static constexpr unsigned kMostTogether = 16;
/// Threads that a GPU wants before it waits for memory no longer than it must.
static constexpr double kEnoughThreads = 64 << 10;

unsigned RowShape::rowsPerBlock() const {
  if (threads > kWarp)
    return 1;
  if (!walks)
    return kSharedBlock / threads;
  // Whole warps, for shuffles.
  return std::min(std::max(kMostTogether, kWarp / threads),
                  kWalkingBlock / threads);
}

/// Registers that one vector of a row takes: what outlives a reduction, or what
/// is loaded before the first.
static unsigned registersOf(const RowPlan &plan, const DeviceAccess &access) {
  const Kernel &kernel = access.kernel;
  SmallVector<unsigned> live(plan.phases.size() + 1, 0);
  // Rows are loaded at the start, everything else is computed where it is
  // first asked for.
  auto count = [&](Value value) {
    if (kernel.isUniform(value))
      return;
    unsigned first = UINT_MAX, last = 0;
    for (Operation *user : value.getUsers()) {
      if (user == kernel.getBody().getTerminator())
        continue;
      unsigned at = plan.levelOf(user->getResult(0));
      at = nn::isReduction(user) && !nn::sumsRows(user) ? at - 1 : at;
      first = std::min(first, at);
      last = std::max(last, at);
    }
    first = isa<BlockArgument>(value) ? 0 : std::min(first, last);
    for (unsigned phase = first + 1; phase <= last; ++phase)
      ++live[phase];
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (access.isRowOperand(argument.getArgNumber()))
      count(argument);
  for (Operation &op : kernel.getBody().without_terminator())
    if (!isa<nn::ConstantOp>(op))
      count(op.getResult(0));
  unsigned most = *llvm::max_element(live) * access.lanes;
  return std::max({most, access.bytesPerLane() * access.lanes / 4, 1u});
}

RowShape kernels::chooseShape(const RowPlan &plan, const DeviceAccess &access,
                              const DeviceTarget &target) {
  int64_t vectors = access.kernel.getRowLength() / access.lanes;
  unsigned sums = access.kernel.getColumnSums().size();
  // Of blocks that walk, so many are at work at once.
  int64_t rows =
      sums ? columnChunksOf(access.kernel) : access.kernel.getRowCount();
  if (vectors <= kWarp)
    return {static_cast<unsigned>(llvm::PowerOf2Ceil(vectors)), 1, true,
            sums > 0};
  unsigned registers = registersOf(plan, access) + sums * access.lanes;
  RowShape best;
  double lowest = INFINITY;
  for (unsigned threads = kWarp; threads <= target.maxBlockThreads;
       threads += kWarp) {
    unsigned slots = llvm::divideCeil(vectors, threads);
    if (slots > 1 && slots * registers > kRowRegisters)
      continue;
    double cost = double(slots) * threads / vectors;
    if (threads > kWarp)
      cost += 0.15;
    if (slots > 2)
      cost += 0.03 * (slots - 2);
    RowShape shape{threads, slots, true, sums > 0};
    double all = double(rows) * (sums ? shape.blockThreads() : threads);
    if (all < kEnoughThreads)
      cost += 0.3 * std::log2(kEnoughThreads / all);
    if (cost >= lowest)
      continue;
    lowest = cost;
    best = shape;
  }
  if (lowest < INFINITY)
    return best;
  // Sums of columns stay in registers, and with them the row.
  if (sums)
    return {target.maxBlockThreads,
            unsigned(llvm::divideCeil(vectors, target.maxBlockThreads)), true,
            true};
  unsigned unroll = std::clamp(kRowRegisters / 2 / registers, 1u, 4u);
  return {target.maxBlockThreads, unroll, false, false};
}
