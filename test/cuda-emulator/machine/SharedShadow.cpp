// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Races in shared memory: two threads touch the same bytes, one of them
// writes, and no barrier lies between. Barriers of the block start a new
// epoch; threads of one warp are ordered by what synchronises the warp.

#include "Access.h"
#include <cuda.h>

using namespace shardonnx::emulator;

void SharedShadow::reset(size_t bytes, unsigned toGranule) {
  granule = toGranule;
  shift = static_cast<unsigned>(__builtin_ctz(granule));
  cells.assign((bytes + granule - 1) / granule, Cell());
}

void SharedShadow::race(Warp &w, const Instr &i, unsigned lane, uint64_t offset,
                        const char *now, const char *then, unsigned other,
                        uint32_t line) {
  std::string text = std::string("race in shared memory at offset ") +
                     std::to_string(offset) + ": " + now + " here, " + then +
                     " by thread " + std::to_string(other) + " at PTX line " +
                     std::to_string(line) + " with no barrier between";
  fault(w, i, lane, CUDA_ERROR_LAUNCH_FAILED, text);
}

void SharedShadow::check(Warp &w, const Instr &i, unsigned lane,
                         uint64_t offset, Cell &cell, Use use) {
  uint32_t epoch = w.block->epoch;
  uint16_t thread = static_cast<uint16_t>(w.index * kLanes + lane);
  uint16_t sync = static_cast<uint16_t>(w.syncs);
  bool wroteNow = cell.writeEpoch == epoch && cell.writer != thread;
  // Within a warp a warp-wide synchronisation orders too.
  if (wroteNow && cell.writer / kLanes == w.index && cell.writeSync != sync)
    wroteNow = false;
  if (wroteNow && !(use == Use::Atomic && cell.writeAtomic))
    race(w, i, lane, offset, use == Use::Read ? "read" : "written", "written",
         cell.writer, cell.writeLine);
  bool readNow = cell.readEpoch == epoch && cell.reader != thread;
  bool sameWarp = !(cell.reader & kManyWarps) &&
                  (cell.reader & kThreadMask) / kLanes == w.index;
  if (use == Use::Read) {
    uint16_t reader = thread;
    if (readNow)
      reader = sameWarp ? static_cast<uint16_t>(thread | kWholeWarp)
                        : static_cast<uint16_t>(cell.reader | kManyWarps);
    // Another warp's reading must not be forgotten for our own.
    if (readNow && sameWarp && cell.readSync != sync)
      reader = thread;
    cell.reader = reader;
    cell.readEpoch = epoch;
    cell.readSync = sync;
    cell.readLine = i.line;
    return;
  }
  if (readNow && sameWarp && cell.readSync != sync)
    readNow = false;
  // Lanes of one instruction read before any of them writes.
  if (readNow && use != Use::Atomic)
    race(w, i, lane, offset, "written", "read", cell.reader & kThreadMask,
         cell.readLine);
  cell.writeEpoch = epoch;
  cell.writer = thread;
  cell.writeSync = sync;
  cell.writeAtomic = use == Use::Atomic;
  cell.writeLine = i.line;
}
