// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the addresses of a warp's lanes to bytes of the host, checked.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_ACCESS_H
#define SHARDONNX_TEST_CUDA_EMULATOR_ACCESS_H

#include "DeviceMemory.h"
#include "Machine.h"

namespace shardonnx::emulator {

enum Space : uint8_t { Global, Shared, Local, Param, Generic };
enum class Use : uint8_t { Read, Write, Atomic };

/// What a worker remembers of the allocations an instruction reaches.
class GlobalView {
public:
  explicit GlobalView(size_t instructions) : ranges(instructions) {}
  MemoryRange &of(const Warp &w, const Instr &i) {
    return ranges[static_cast<size_t>(&i - w.block->program->code.data())];
  }

private:
  std::vector<MemoryRange> ranges;
};

struct Resolved {
  char *p[kLanes];
  /// Lane l is at p[0] + l * bytes, all lanes present.
  bool contiguous = false;
};

/// Checks bounds, alignment and races of `bytes` at every active lane's
/// address; throws Fault.
void resolve(Warp &w, const Instr &i, Space space, unsigned bytes, Use use,
             Resolved &out);
/// One lane at a generic or space-relative address.
char *resolveLane(Warp &w, const Instr &i, unsigned lane, Space space,
                  uint64_t address, unsigned bytes, unsigned align, Use use);
/// Lane addresses of the operand `ref` + imm.
inline uint64_t laneAddress(const Warp &w, const Instr &i, unsigned lane) {
  if (i.a == kNowhere)
    return static_cast<uint64_t>(i.imm);
  return static_cast<uint64_t>(i.imm) + (i.wideAddress
                                             ? w.at<uint64_t>(i.a)[lane]
                                             : w.at<uint32_t>(i.a)[lane]);
}

/// Handlers of ld and st for a type and a register size; null if there is
/// none. The space and the vector width are in Instr::mode.
Handler loadHandler(const std::string &type, unsigned registerBytes);
Handler storeHandler(const std::string &type, unsigned registerBytes);
/// A kernel parameter at a constant offset: the same for all lanes.
Handler loadParamHandler(const std::string &type, unsigned registerBytes);

/// Who touched each granule of a block's shared memory last.
class SharedShadow {
public:
  void reset(size_t bytes, unsigned granule);
  /// Throws Fault on a race.
  void touch(Warp &w, const Instr &i, unsigned lane, uint64_t offset,
             unsigned bytes, Use use) {
    uint64_t end = (offset + bytes + granule - 1) >> shift;
    for (uint64_t k = offset >> shift; k < end; ++k)
      if (use != Use::Read || !readQuickly(w, i, lane, cells[k]))
        check(w, i, lane, k << shift, cells[k], use);
  }

private:
  /// Epochs are the block's, syncs the warp's; instructions are PTX lines.
  struct Cell {
    uint32_t writeEpoch, readEpoch;
    uint32_t writeLine, readLine;
    uint16_t writer, reader;
    uint16_t writeSync, readSync;
    bool writeAtomic;
  };
  /// Reader fields: several threads of one warp, or of several.
  static constexpr uint16_t kWholeWarp = 0x4000;
  static constexpr uint16_t kManyWarps = 0x8000;
  static constexpr uint16_t kThreadMask = 0x03ff;

  /// What most reads are: nobody has written since the last barrier, and
  /// nobody, or many, have read.
  bool readQuickly(const Warp &w, const Instr &i, unsigned lane, Cell &cell) {
    uint32_t epoch = w.block->epoch;
    if (cell.writeEpoch == epoch)
      return false;
    if (cell.readEpoch == epoch)
      return cell.reader & kManyWarps;
    cell.readEpoch = epoch;
    cell.reader = static_cast<uint16_t>(w.index * kLanes + lane);
    cell.readSync = static_cast<uint16_t>(w.syncs);
    cell.readLine = i.line;
    return true;
  }
  void check(Warp &w, const Instr &i, unsigned lane, uint64_t offset,
             Cell &cell, Use use);
  [[noreturn]] void race(Warp &w, const Instr &i, unsigned lane,
                         uint64_t offset, const char *now, const char *then,
                         unsigned other, uint32_t line);
  std::vector<Cell> cells;
  unsigned granule = 4, shift = 2;
};

} // namespace shardonnx::emulator

#endif
