// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets blocks up and spreads them over threads.

#include "BlockRunner.h"
#include "ThreadPool.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cuda.h>

using namespace shardonnx::emulator;

static std::atomic<uint64_t> executedTotal;

uint64_t shardonnx::emulator::executedInstructions() { return executedTotal; }

void BlockRunner::Free::operator()(char *p) const { std::free(p); }

BlockRunner::Memory BlockRunner::allocate(size_t bytes) {
  size_t rounded = std::max<size_t>((bytes + 63) / 64 * 64, 64);
  return Memory(static_cast<char *>(std::aligned_alloc(64, rounded)));
}

BlockRunner::BlockRunner(const Launch &launch)
    : view(launch.program->code.size()) {
  const Program &program = *launch.program;
  uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  size_t warps = (threads + kLanes - 1) / kLanes;
  block.warps.resize(warps);
  frames = allocate(warps * program.frameBytes);
  // Registers no instruction has written must not look like zeros.
  std::memset(frames.get(), 0xff, warps * program.frameBytes);
  specials = allocate(warps * kSpecialBytes);
  locals = allocate(warps * kLanes * program.localBytes);
  block.sharedBytes = program.staticShared + launch.dynamicShared;
  shared = allocate(block.sharedBytes);
  block.program = &program;
  block.launch = &launch;
  block.shared = shared.get();
  block.shadow = &shadow;
  block.view = &view;
  for (size_t k = 0; k < warps; ++k) {
    Warp &w = block.warps[k];
    w.index = static_cast<uint32_t>(k);
    w.block = &block;
    uint32_t count = std::min(kLanes, threads - w.index * kLanes);
    w.present = count == kLanes ? kAllLanes : (1u << count) - 1;
    w.bank[kRegisters] = frames.get() + k * program.frameBytes;
    w.bank[kConstants] = const_cast<char *>(program.constants.data());
    w.bank[kSpecials] = specials.get() + k * kSpecialBytes;
    w.local = locals.get() + k * kLanes * program.localBytes;
    fillSpecials(launch, w);
  }
}

void BlockRunner::fillSpecials(const Launch &launch, Warp &w) {
  auto fill = [&](uint32_t which, auto value) {
    uint32_t *to = w.at<uint32_t>(which | kSpecials);
    for (unsigned l = 0; l < kLanes; ++l)
      to[l] = value(l);
  };
  auto same = [&](uint32_t which, uint32_t value) {
    fill(which, [=](unsigned) { return value; });
  };
  uint32_t x = launch.block[0], y = launch.block[1];
  uint32_t first = w.index * kLanes;
  fill(kTidX, [=](unsigned l) { return (first + l) % x; });
  fill(kTidY, [=](unsigned l) { return (first + l) / x % y; });
  fill(kTidZ, [=](unsigned l) { return (first + l) / x / y; });
  fill(kLaneId, [](unsigned l) { return l; });
  fill(kLaneMaskEq, [](unsigned l) { return 1u << l; });
  fill(kLaneMaskLe, [](unsigned l) { return (2u << l) - 1; });
  fill(kLaneMaskLt, [](unsigned l) { return (1u << l) - 1; });
  fill(kLaneMaskGe, [](unsigned l) { return ~((1u << l) - 1); });
  fill(kLaneMaskGt, [](unsigned l) { return ~((2u << l) - 1); });
  same(kWarpId, w.index);
  same(kNwarpId, static_cast<uint32_t>(block.warps.size()));
  for (unsigned d = 0; d < 3; ++d) {
    same(kNtidX + d * 128, launch.block[d]);
    same(kNctaidX + d * 128, launch.grid[d]);
  }
  same(kDynamicShared, launch.dynamicShared);
  same(kTotalShared, block.sharedBytes);
}

void BlockRunner::prepare(const Launch &launch, uint64_t linear) {
  block.linear = linear;
  block.ctaid[0] = static_cast<uint32_t>(linear % launch.grid[0]);
  block.ctaid[1] =
      static_cast<uint32_t>(linear / launch.grid[0] % launch.grid[1]);
  block.ctaid[2] =
      static_cast<uint32_t>(linear / launch.grid[0] / launch.grid[1]);
  block.epoch = 1;
  std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier());
  std::memset(block.shared, 0xff, block.sharedBytes);
  shadow.reset(block.sharedBytes, block.program->sharedGranule);
  std::memset(locals.get(), 0xff,
              block.warps.size() * kLanes * block.program->localBytes);
  for (Warp &w : block.warps) {
    w.pc = 0;
    w.join = kNowhere;
    w.active = w.present;
    w.exited = w.syncs = 0;
    w.done = w.waiting = false;
    w.depends = launch.programmatic;
    w.paths.clear();
    w.copies.clear();
    std::fill(std::begin(w.copyGroup), std::end(w.copyGroup), 0);
    w.executed = 0;
    for (unsigned d = 0; d < 3; ++d) {
      uint32_t *to = w.at<uint32_t>((kCtaidX + d * 128) | kSpecials);
      std::fill(to, to + kLanes, block.ctaid[d]);
    }
  }
}

void shardonnx::emulator::runLaunch(const Launch &launch) {
  uint64_t blocks = uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::unique_ptr<Fault> first;
  auto work = [&] {
    if (next >= blocks)
      return;
    BlockRunner runner(launch);
    try {
      for (uint64_t k; !failed && (k = next++) < blocks;)
        runner.run(launch, k);
    } catch (const Fault &caught) {
      std::lock_guard<std::mutex> lock(mutex);
      failed = true;
      if (!first)
        first = std::make_unique<Fault>(caught);
    }
    executedTotal += runner.executed;
  };
  ThreadPool::get().run(blocks, work);
  if (first)
    throw Fault(*first);
}
