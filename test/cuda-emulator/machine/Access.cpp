// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and stores, with their checks.

#include "Access.h"
#include "Handlers.h"
#include <cuda.h>

using namespace shardonnx::emulator;

/// Races with other blocks and other work.
static void checkRace(Warp &w, const Instr &i, unsigned lane, const char *host,
                      unsigned bytes, Use use) {
  const Block &block = *w.block;
  std::string text = touchFromBlock(*block.launch->order, block.linear, host,
                                    bytes, use != Use::Read, use == Use::Atomic,
                                    block.program->hasFences);
  if (!text.empty())
    fault(w, i, lane, CUDA_ERROR_LAUNCH_FAILED, text);
}

char *shardonnx::emulator::resolveLane(Warp &w, const Instr &i, unsigned lane,
                                       Space space, uint64_t address,
                                       unsigned bytes, unsigned align,
                                       Use use) {
  if (space == Generic) {
    uint64_t window = address & kWindowMask;
    space = window == kSharedWindow  ? Shared
            : window == kLocalWindow ? Local
            : window == kParamWindow ? Param
                                     : Global;
    if (space != Global)
      address -= window;
  }
  if (address & (align - 1))
    fault(w, i, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
          "misaligned access: " + std::to_string(bytes) +
              " bytes at an address"
              " that is not a multiple of " +
              std::to_string(align));
  switch (space) {
  case Shared:
    if (address > w.block->sharedBytes ||
        bytes > w.block->sharedBytes - address)
      fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
            "shared memory out of range: " + std::to_string(bytes) +
                " bytes at offset " + std::to_string(address) + " of " +
                std::to_string(w.block->sharedBytes));
    w.block->shadow->touch(w, i, lane, address, bytes, use);
    return w.block->shared + address;
  case Local: {
    uint64_t size = w.block->program->localBytes;
    if (address > size || bytes > size - address)
      fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
            "local memory out of range: offset " + std::to_string(address) +
                " of " + std::to_string(size));
    return w.local + lane * size + address;
  }
  case Param: {
    const std::vector<char> &params = w.block->launch->params;
    if (use != Use::Read || address > params.size() ||
        bytes > params.size() - address)
      fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
            "kernel parameter out of range");
    return const_cast<char *>(params.data()) + address;
  }
  default: {
    if (w.depends)
      fault(w, i, lane, CUDA_ERROR_LAUNCH_FAILED,
            std::string(use == Use::Read ? "reads" : "writes") +
                " global memory before griddepcontrol.wait, although it was "
                "launched before what it depends on has ended");
    MemoryRange &range = w.block->view->of(w, i);
    if (address < range.low || address >= range.high ||
        bytes > range.high - address) {
      const DeviceMemory &memory = DeviceMemory::get();
      if (!memory.find(address, range) || bytes > range.high - address) {
        range = MemoryRange();
        fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
              std::string(use == Use::Read ? "reads " : "writes ") +
                  memory.describe(address, bytes));
      }
      if (!range.pinned && range.device != w.block->launch->device)
        fault(w, i, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
              "memory of another device");
    }
    char *host = range.host + (address - range.low);
    if (w.block->launch->order && !range.pinned)
      checkRace(w, i, lane, host, bytes, use);
    return host;
  }
  }
}

/// Every lane inside the allocation the instruction reached last?
static bool resolveFast(Warp &w, const Instr &i, unsigned bytes,
                        Resolved &out) {
  const MemoryRange &range = w.block->view->of(w, i);
  if (!range.high || !i.wideAddress || i.a == kNowhere)
    return false;
  const uint64_t *a = w.at<uint64_t>(i.a);
  const uint32_t *m = w.lanes();
  uint64_t imm = static_cast<uint64_t>(i.imm), low = range.low;
  uint64_t size = range.high - range.low;
  if (size < bytes)
    return false;
  uint64_t last = size - bytes, bad = 0, strided = 0;
  uint64_t first = a[0] + imm - low;
  char *host = range.host;
#pragma GCC ivdep
  for (unsigned l = 0; l < kLanes; ++l) {
    uint64_t offset = a[l] + imm - low;
    // Differences compared as signed numbers: cheap with AVX2.
    uint64_t wrong = (last - offset) | offset;
    wrong = (wrong & 0x8000'0000'0000'0000) | ((offset + low) & (bytes - 1));
    bad |= m[l] ? wrong : 0;
    strided |= offset - first - l * bytes;
    out.p[l] = host + offset;
  }
  out.contiguous = !strided && w.mask == kAllLanes;
  return !bad;
}

/// Offsets of shared memory, in line; resolveLane() tells what is wrong.
template <class A>
static void resolveShared(Warp &w, const Instr &i, unsigned bytes, Use use,
                          Resolved &out) {
  Block &block = *w.block;
  const A *a = w.at<A>(i.a);
  for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    uint64_t offset = a[l] + static_cast<uint64_t>(i.imm);
    if ((offset & (bytes - 1)) || offset > block.sharedBytes ||
        bytes > block.sharedBytes - offset) {
      out.p[l] = resolveLane(w, i, l, Shared, offset, bytes, bytes, use);
      continue;
    }
    block.shadow->touch(w, i, l, offset, bytes, use);
    out.p[l] = block.shared + offset;
  }
}

void shardonnx::emulator::resolve(Warp &w, const Instr &i, Space space,
                                  unsigned bytes, Use use, Resolved &out) {
  if ((space == Global || space == Generic) && !w.block->launch->order &&
      !w.depends && resolveFast(w, i, bytes, out))
    return;
  out.contiguous = false;
  if (space == Shared && i.a != kNowhere)
    return i.wideAddress ? resolveShared<uint64_t>(w, i, bytes, use, out)
                         : resolveShared<uint32_t>(w, i, bytes, use, out);
  for (unsigned l = 0; l < kLanes; ++l)
    if (w.mask >> l & 1)
      out.p[l] =
          resolveLane(w, i, l, space, laneAddress(w, i, l), bytes, bytes, use);
}

namespace {

template <class T, class R> void load(Warp &w, const Instr &i) {
  unsigned count = (i.mode >> 4) + 1u;
  Resolved at;
  resolve(w, i, static_cast<Space>(i.mode & 15), count * sizeof(T), Use::Read,
          at);
  const uint32_t *registers = w.block->program->lists[i.target].data();
  for (unsigned v = 0; v < count; ++v) {
    if (registers[v] == kNowhere)
      continue;
    R *d = w.at<R>(registers[v]);
    if (sizeof(T) == sizeof(R) && count == 1 && at.contiguous) {
      std::memcpy(d, at.p[0], kLanes * sizeof(R));
      return;
    }
    for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
      T value;
      std::memcpy(&value, at.p[l] + v * sizeof(T), sizeof(T));
      d[l] = static_cast<R>(value);
    }
  }
}

template <class T, class R> void store(Warp &w, const Instr &i) {
  unsigned count = (i.mode >> 4) + 1u;
  Resolved at;
  resolve(w, i, static_cast<Space>(i.mode & 15), count * sizeof(T), Use::Write,
          at);
  const uint32_t *registers = w.block->program->lists[i.target].data();
  for (unsigned v = 0; v < count; ++v) {
    const R *s = w.at<R>(registers[v]);
    if (sizeof(T) == sizeof(R) && count == 1 && at.contiguous) {
      std::memcpy(at.p[0], s, kLanes * sizeof(R));
      return;
    }
    for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
      T value = static_cast<T>(s[l]);
      std::memcpy(at.p[l] + v * sizeof(T), &value, sizeof(T));
    }
  }
}

template <class T, class R> void loadParam(Warp &w, const Instr &i) {
  unsigned count = (i.mode >> 4) + 1u;
  const uint32_t *registers = w.block->program->lists[i.target].data();
  const char *from = w.block->launch->params.data() + i.imm;
  for (unsigned v = 0; v < count; ++v) {
    if (registers[v] == kNowhere)
      continue;
    T value;
    std::memcpy(&value, from + v * sizeof(T), sizeof(T));
    R wide = static_cast<R>(value);
    forLanes(w, w.at<R>(registers[v]), [=](unsigned) { return wide; });
  }
}

/// Signed types are extended by their sign, the others by zeros.
template <template <class, class> class Pick>
Handler pick(const std::string &type, unsigned bytes) {
  unsigned size = 0;
  for (const char *digits : {"8", "16", "32", "64"})
    if (type.size() > 1 && (type.compare(1, std::string::npos, digits) == 0 ||
                            type == std::string("bf") + digits))
      size = static_cast<unsigned>(std::stoul(digits)) / 8;
  if (type == "f16x2" || type == "bf16x2")
    size = 4;
  bool isSigned = type[0] == 's';
  if (bytes < size)
    return nullptr;
#define CASE(T, S, R)                                                          \
  if (size == sizeof(T) && bytes == sizeof(R))                                 \
  return isSigned ? Pick<S, std::make_signed_t<R>>::run : Pick<T, R>::run
  CASE(uint8_t, int8_t, uint16_t);
  CASE(uint8_t, int8_t, uint32_t);
  CASE(uint8_t, int8_t, uint64_t);
  CASE(uint16_t, int16_t, uint16_t);
  CASE(uint16_t, int16_t, uint32_t);
  CASE(uint16_t, int16_t, uint64_t);
  CASE(uint32_t, int32_t, uint32_t);
  CASE(uint32_t, int32_t, uint64_t);
  CASE(uint64_t, int64_t, uint64_t);
#undef CASE
  return nullptr;
}

template <class T, class R> struct Load {
  static void run(Warp &w, const Instr &i) { load<T, R>(w, i); }
};
template <class T, class R> struct Store {
  static void run(Warp &w, const Instr &i) { store<T, R>(w, i); }
};
template <class T, class R> struct LoadParam {
  static void run(Warp &w, const Instr &i) { loadParam<T, R>(w, i); }
};

} // namespace

Handler shardonnx::emulator::loadHandler(const std::string &type,
                                         unsigned registerBytes) {
  return pick<Load>(type, registerBytes);
}
Handler shardonnx::emulator::storeHandler(const std::string &type,
                                          unsigned registerBytes) {
  return pick<Store>(type, registerBytes);
}
Handler shardonnx::emulator::loadParamHandler(const std::string &type,
                                              unsigned registerBytes) {
  return pick<LoadParam>(type, registerBytes);
}
