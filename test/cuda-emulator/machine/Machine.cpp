// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs warps: the program counter, divergence, barriers.

#include "Machine.h"
#include "BlockRunner.h"
#include <algorithm>
#include <cuda.h>

using namespace shardonnx::emulator;

void shardonnx::emulator::fault(Warp &w, const Instr &i, unsigned lane,
                                int code, const std::string &what) {
  const Block &block = *w.block;
  const Program &program = *block.program;
  const uint32_t *size = block.launch->block;
  uint32_t thread = w.index * kLanes + lane;
  auto triple = [](uint64_t x, uint64_t y, uint64_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," +
           std::to_string(z) + ")";
  };
  std::string text =
      "kernel " + program.name + ", block " +
      triple(block.ctaid[0], block.ctaid[1], block.ctaid[2]) + ", thread " +
      triple(thread % size[0], thread / size[0] % size[1],
             thread / size[0] / size[1]) +
      ", PTX line " + std::to_string(i.line) + " (" +
      program.texts[static_cast<size_t>(&i - program.code.data())] +
      "): " + what;
  throw Fault(code, text);
}

namespace {

/// Takes the next path with lanes that still run; false if none is left.
bool nextPath(Warp &w) {
  while (!w.paths.empty()) {
    Warp::Path path = w.paths.back();
    w.paths.pop_back();
    w.active = path.active & ~w.exited;
    w.pc = path.pc;
    w.join = path.join;
    if (w.active && w.pc != w.join)
      return true;
  }
  w.active = 0;
  w.done = true;
  return false;
}

/// Splits the warp; `sides` are pairs of program counter and lanes.
void diverge(Warp &w, const Instr &i,
             std::initializer_list<std::pair<uint32_t, uint32_t>> sides) {
  if (i.join != kNowhere && i.join != w.join)
    w.paths.push_back({i.join, w.join, w.active});
  for (auto &[pc, lanes] : sides)
    if (lanes && pc != i.join)
      w.paths.push_back({pc, i.join, lanes});
  nextPath(w);
}

void branch(Warp &w, const Instr &i, uint32_t taken) {
  uint32_t rest = w.active & ~taken;
  if (!rest)
    w.pc = i.target;
  else if (taken)
    diverge(w, i, {{i.target, taken}, {w.pc, rest}});
}

void branchTable(Warp &w, const Instr &i, uint32_t taken) {
  const std::vector<uint32_t> &targets = w.block->program->lists[i.target];
  const uint32_t *index = w.at<uint32_t>(i.a);
  uint32_t rest = w.active & ~taken;
  if (i.join != kNowhere && i.join != w.join)
    w.paths.push_back({i.join, w.join, w.active});
  if (rest && w.pc != i.join)
    w.paths.push_back({w.pc, i.join, rest});
  for (uint32_t k = 0; k < targets.size(); ++k) {
    uint32_t lanes = 0;
    for (unsigned l = 0; l < kLanes; ++l)
      lanes |= static_cast<uint32_t>(index[l] == k) << l;
    lanes &= taken;
    taken &= ~lanes;
    if (lanes && targets[k] != i.join)
      w.paths.push_back({targets[k], i.join, lanes});
  }
  if (taken)
    fault(w, i, static_cast<unsigned>(__builtin_ctz(taken)),
          CUDA_ERROR_LAUNCH_FAILED, "brx.idx beyond its table");
  nextPath(w);
}

/// Lanes return; true if the warp has none left on this path.
bool leave(Warp &w, uint32_t lanes) {
  w.exited |= lanes;
  w.active &= ~lanes;
  return !w.active;
}

/// bar.red's result, for the lanes of a warp that waited.
void finishReduction(Warp &w, const Instr &i, const Barrier &barrier) {
  w.mask = w.active;
  uint32_t all = barrier.arrived, trues = barrier.trues;
  if (i.mode == 2)
    forLanes(w, w.at<uint32_t>(i.d), [=](unsigned) { return trues; });
  else if (i.mode > 2)
    w.setPredicate(i.d,
                   (i.mode == 3 ? trues == all : trues > 0) ? kAllLanes : 0);
}

void release(Block &block, uint32_t id) {
  for (Warp &w : block.warps)
    if (w.waiting && *w.at<uint32_t>(w.barrier->a) == id) {
      finishReduction(w, *w.barrier, block.barriers[id]);
      w.waiting = false;
    }
  block.barriers[id] = Barrier();
  ++block.epoch;
}

uint32_t threadsOf(const Block &block) {
  const uint32_t *size = block.launch->block;
  return size[0] * size[1] * size[2];
}

/// Lanes that returned, or that wait to do it at the end of the function.
uint32_t returnedLanes(const Warp &w) {
  uint32_t lanes = w.exited, placed = w.active;
  // The innermost path of a lane is where it goes on.
  for (auto path = w.paths.rbegin(); path != w.paths.rend(); ++path) {
    if (w.block->program->code[path->pc].flow == Flow::Exit)
      lanes |= path->active & ~placed;
    placed |= path->active;
  }
  return lanes;
}

void arrive(Warp &w, const Instr &i) {
  Block &block = *w.block;
  uint32_t missing = w.present & ~w.mask;
  if (missing)
    fault(w, i, static_cast<unsigned>(__builtin_ctz(missing)),
          CUDA_ERROR_LAUNCH_FAILED,
          missing & returnedLanes(w)
              ? "barrier after this thread of the warp returned"
              : "barrier in divergent code: this thread of the "
                "warp is elsewhere");
  uint32_t id = *w.at<uint32_t>(i.a);
  if (id > 15)
    fault(w, i, 0, CUDA_ERROR_LAUNCH_FAILED, "no such barrier");
  uint32_t expected = i.b == kNowhere ? threadsOf(block) : *w.at<uint32_t>(i.b);
  Barrier &barrier = block.barriers[id];
  // Counts are of whole warps.
  uint32_t whole = i.b == kNowhere
                       ? static_cast<uint32_t>(__builtin_popcount(w.present))
                       : kLanes;
  barrier.arrived += whole;
  if (i.mode > 1) {
    const std::vector<uint32_t> &extra = block.program->lists[i.target];
    uint32_t p = w.predicate(extra[0]) ^ (extra[1] ? kAllLanes : 0);
    barrier.trues += static_cast<uint32_t>(__builtin_popcount(p & w.present));
  }
  if (i.mode != 1) {
    w.waiting = true;
    w.barrier = &i;
  }
  if (barrier.arrived >= expected)
    release(block, id);
}

/// Runs until a barrier, the end, or the budget.
void runWarp(Warp &w, uint32_t budget) {
  const Instr *code = w.block->program->code.data();
  while (budget--) {
    if (w.pc == w.join && !nextPath(w))
      return;
    const Instr &i = code[w.pc++];
    uint32_t mask = w.active;
    if (i.guard != kNowhere)
      mask &= w.predicate(i.guard) ^ (i.guardNegated ? kAllLanes : 0);
    w.executed += static_cast<uint32_t>(__builtin_popcount(mask));
    if (i.flow == Flow::Next) {
      if (mask) {
        w.mask = mask;
        i.run(w, i);
      }
      continue;
    }
    w.mask = mask;
    if (i.flow == Flow::Branch) {
      branch(w, i, mask);
    } else if (i.flow == Flow::Table) {
      branchTable(w, i, mask);
    } else if (i.flow == Flow::Exit) {
      if (leave(w, mask) && !nextPath(w))
        return;
    } else if (mask) {
      arrive(w, i);
      if (w.waiting)
        return;
    }
  }
}

/// All warps wait or are done: who is missed?
[[noreturn]] void deadlock(Block &block) {
  for (Warp &w : block.warps)
    if (w.waiting) {
      uint32_t id = *w.at<uint32_t>(w.barrier->a);
      fault(w, *w.barrier, 0, CUDA_ERROR_LAUNCH_FAILED,
            "barrier " + std::to_string(id) + " waits for ever: only " +
                std::to_string(block.barriers[id].arrived) +
                " threads arrive, the others returned or wait elsewhere");
    }
  throw Fault(CUDA_ERROR_LAUNCH_FAILED, "block without progress");
}

} // namespace

void BlockRunner::run(const Launch &launch, uint64_t linear) {
  prepare(launch, linear);
  for (bool left = true; left;) {
    bool progress = false;
    left = false;
    for (Warp &w : block.warps) {
      if (!w.done && !w.waiting) {
        runWarp(w, 1u << 20);
        progress = true;
      }
      left |= !w.done;
    }
    if (left && !progress)
      deadlock(block);
  }
  for (Warp &w : block.warps)
    executed += w.executed;
  auto depends = [](const Warp &w) { return w.depends; };
  if (std::all_of(block.warps.begin(), block.warps.end(), depends))
    throw Fault(CUDA_ERROR_LAUNCH_FAILED,
                "kernel " + block.program->name + ", block " +
                    std::to_string(linear) +
                    " of a programmatic launch returns without "
                    "griddepcontrol.wait: what follows it would not wait for "
                    "what came before it");
}
