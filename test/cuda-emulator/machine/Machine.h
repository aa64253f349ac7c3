// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a decoded kernel is and the state it runs on: instructions work on whole
// warps, so that their loops over lanes become vector code.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_MACHINE_H
#define SHARDONNX_TEST_CUDA_EMULATOR_MACHINE_H

#include "Order.h"
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardonnx::emulator {

constexpr unsigned kLanes = 32;
constexpr uint32_t kAllLanes = ~0u;
constexpr uint32_t kNowhere = ~0u;

/// Generic addresses: bits 48 … 55 say the space, so that no address of the
/// host can be mistaken for one of the device.
constexpr uint64_t kSharedWindow = 0x00a0'0000'0000'0000;
constexpr uint64_t kLocalWindow = 0x00b0'0000'0000'0000;
constexpr uint64_t kParamWindow = 0x00c0'0000'0000'0000;
constexpr uint64_t kWindowMask = 0xffff'0000'0000'0000;

struct Warp;
struct Instr;
using Handler = void (*)(Warp &, const Instr &);

/// A register: an offset in a bank. Offsets are multiples of 8; the low bits
/// are the bank.
using Ref = uint32_t;
enum Bank : uint32_t { kRegisters = 0, kConstants = 1, kSpecials = 2 };
constexpr uint32_t kBankMask = 7;

/// How an instruction moves the program counter.
enum class Flow : uint8_t { Next, Branch, Table, Exit, Barrier };

struct Instr {
  Handler run = nullptr;
  Ref d = kNowhere, a = kNowhere, b = kNowhere, c = kNowhere;
  /// Predicate; kNowhere without one.
  Ref guard = kNowhere;
  uint32_t line = 0;
  /// Branch target, or index into Program::lists.
  uint32_t target = 0;
  /// Where the lanes of a divergent branch meet again.
  uint32_t join = kNowhere;
  int64_t imm = 0;
  Flow flow = Flow::Next;
  bool guardNegated = false;
  /// Small facts of one kind of instruction (vector width, mode, …).
  uint8_t mode = 0;
  bool wideAddress = true;
};

/// Offsets in the bank of special registers.
enum Special : uint32_t {
  kTidX = 0,
  kTidY = 128,
  kTidZ = 256,
  kLaneId = 384,
  kWarpId = 512,
  kNtidX = 640,
  kNtidY = 768,
  kNtidZ = 896,
  kCtaidX = 1024,
  kCtaidY = 1152,
  kCtaidZ = 1280,
  kNctaidX = 1408,
  kNctaidY = 1536,
  kNctaidZ = 1664,
  kLaneMaskEq = 1792,
  kLaneMaskLe = 1920,
  kLaneMaskLt = 2048,
  kLaneMaskGe = 2176,
  kLaneMaskGt = 2304,
  kNwarpId = 2432,
  kDynamicShared = 2560,
  kTotalShared = 2688,
  kSpecialBytes = 2816
};

/// A kernel, decoded.
struct Program {
  std::string name;
  std::vector<Instr> code;
  std::vector<std::vector<uint32_t>> lists;
  /// Texts for messages, by instruction.
  std::vector<std::string> texts;
  std::vector<char> constants;
  uint32_t frameBytes = 0;
  uint32_t localBytes = 0;
  uint32_t paramBytes = 0;
  uint32_t staticShared = 0;
  uint32_t sharedAlign = 16;
  uint32_t maxThreads = 1024;
  uint32_t virtualRegisters = 0;
  /// The narrowest access that may reach shared memory: what races are
  /// looked for in.
  uint32_t sharedGranule = 8;
  /// It has fences: blocks may order their accesses by flags.
  bool hasFences = false;
  struct Param {
    uint32_t offset, size;
  };
  std::vector<Param> params;
};

/// A mistake of a kernel: ends the launch.
struct Fault : std::runtime_error {
  Fault(int code, const std::string &what)
      : std::runtime_error(what), code(code) {}
  int code; ///< CUresult
};

struct Block;
class GlobalView;

/// A cp.async whose bytes have not arrived.
struct PendingCopy {
  uint64_t from, to;
  uint8_t bytes, sourceBytes, lane;
  uint32_t group;
  const Instr *instr;
};

struct Warp {
  char *bank[3];
  uint32_t pc = 0, join = kNowhere;
  /// Lanes on this path; lanes the current instruction works on.
  uint32_t active = 0, mask = 0;
  /// Lanes of the block in this warp, and those that returned.
  uint32_t present = 0, exited = 0;
  uint32_t expanded = 0;
  uint32_t index = 0;
  /// Counts what orders the warp's own memory accesses.
  uint32_t syncs = 0;
  bool done = false, waiting = false;
  /// Of a programmatic launch, before its griddepcontrol.wait.
  bool depends = false;
  /// Where it waits.
  const Instr *barrier = nullptr;
  alignas(64) uint32_t lane32[kLanes] = {};
  struct Path {
    uint32_t pc, join, active;
  };
  std::vector<Path> paths;
  std::vector<PendingCopy> copies;
  /// Groups each lane has committed.
  uint32_t copyGroup[kLanes] = {};
  /// Local memory: localBytes for each lane, one after the other.
  char *local = nullptr;
  Block *block = nullptr;
  uint64_t executed = 0;

  template <class T> T *at(Ref ref) const {
    return reinterpret_cast<T *>(bank[ref & kBankMask] + (ref & ~kBankMask));
  }
  uint32_t predicate(Ref ref) const { return *at<uint32_t>(ref); }
  void setPredicate(Ref ref, uint32_t bits) {
    uint32_t *p = at<uint32_t>(ref);
    *p = (*p & ~mask) | (bits & mask);
  }
  /// All ones for each lane in the mask.
  const uint32_t *lanes() {
    if (expanded != mask) {
      for (unsigned i = 0; i < kLanes; ++i)
        lane32[i] = 0u - ((mask >> i) & 1u);
      expanded = mask;
    }
    return lane32;
  }
};

/// One of a block's 16 barriers.
struct Barrier {
  uint32_t arrived = 0;
  /// Of bar.red.
  uint32_t trues = 0;
};

class SharedShadow;

struct Launch;

/// A thread block on the worker that runs it.
struct Block {
  const Program *program = nullptr;
  const Launch *launch = nullptr;
  uint32_t ctaid[3] = {};
  uint64_t linear = 0;
  std::vector<Warp> warps;
  char *shared = nullptr;
  uint32_t sharedBytes = 0;
  SharedShadow *shadow = nullptr;
  GlobalView *view = nullptr;
  uint32_t epoch = 1;
  Barrier barriers[16];
};

struct Launch {
  const Program *program = nullptr;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamicShared = 0;
  std::vector<char> params;
  int device = 0;
  /// It may begin before what it depends on has ended: until
  /// griddepcontrol.wait, nothing of global memory is what it will be.
  bool programmatic = false;
  /// Set when races in global memory are looked for.
  std::shared_ptr<const Order> order;
};

/// Throws a Fault that names kernel, block, thread and line.
[[noreturn]] void fault(Warp &warp, const Instr &instr, unsigned lane, int code,
                        const std::string &what);

/// Runs a launch on the pool; throws Fault.
void runLaunch(const Launch &launch);

/// Lane-instructions run since the start.
uint64_t executedInstructions();

/// Lane-wise loop with the mask, for instructions that write T.
template <class D, class F> inline void forLanes(Warp &w, D *d, F value) {
  if (w.mask == kAllLanes) {
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i)
      d[i] = value(i);
  } else {
    const uint32_t *m = w.lanes();
#pragma GCC ivdep
    for (unsigned i = 0; i < kLanes; ++i)
      d[i] = m[i] ? value(i) : d[i];
  }
}

} // namespace shardonnx::emulator

#endif
