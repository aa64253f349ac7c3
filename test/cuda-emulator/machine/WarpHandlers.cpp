// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lanes of a warp do together, packing, asynchronous copies and
// special registers that change.

#include "WarpHandlers.h"
#include "Access.h"
#include "Handlers.h"
#include <algorithm>
#include <chrono>
#include <cuda.h>

using namespace shardonnx::emulator;

namespace {

/// Every lane named by the mask that still runs must be here.
void checkMembers(Warp &w, const Instr &i, const uint32_t *members,
                  const char *what) {
  for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    uint32_t named = members[l] & w.present & ~w.exited;
    if (!(members[l] >> l & 1))
      fault(w, i, l, CUDA_ERROR_LAUNCH_FAILED,
            std::string(what) + " by a lane that its member mask leaves out");
    if (named & ~w.mask)
      fault(w, i, l, CUDA_ERROR_LAUNCH_FAILED,
            std::string(what) + " whose member mask names the inactive lane " +
                std::to_string(__builtin_ctz(named & ~w.mask)));
  }
}

template <class R, class P, unsigned count> void pack(Warp &w, const Instr &i) {
  const std::vector<uint32_t> &parts = w.block->program->lists[i.target];
  const P *from[count];
  for (unsigned k = 0; k < count; ++k)
    from[k] = w.at<P>(parts[k]);
  forLanes(w, w.at<R>(i.d), [&](unsigned l) {
    R value = 0;
    for (unsigned k = 0; k < count; ++k)
      value = static_cast<R>(value | static_cast<R>(from[k][l])
                                         << (k * sizeof(P) * 8));
    return value;
  });
}

template <class R, class P, unsigned count>
void unpack(Warp &w, const Instr &i) {
  const std::vector<uint32_t> &parts = w.block->program->lists[i.target];
  // A copy: a part may be the source's own register.
  R value[kLanes];
  std::memcpy(value, w.at<R>(i.a), sizeof value);
  for (unsigned k = 0; k < count; ++k)
    if (parts[k] != kNowhere)
      forLanes(w, w.at<P>(parts[k]), [&](unsigned l) {
        return static_cast<P>(value[l] >> (k * sizeof(P) * 8));
      });
}

void readClock(Warp &w, const Instr &i) {
  uint32_t now = static_cast<uint32_t>(w.executed);
  forLanes(w, w.at<uint32_t>(i.d), [=](unsigned) { return now; });
}
void readClock64(Warp &w, const Instr &i) {
  uint64_t now = w.executed;
  forLanes(w, w.at<uint64_t>(i.d), [=](unsigned) { return now; });
}
void readTimer(Warp &w, const Instr &i) {
  uint64_t now = static_cast<uint64_t>(
      std::chrono::system_clock::now().time_since_epoch().count());
  forLanes(w, w.at<uint64_t>(i.d), [=](unsigned) { return now; });
}
void readZero(Warp &w, const Instr &i) {
  forLanes(w, w.at<uint32_t>(i.d), [](unsigned) { return 0u; });
}

/// The lane a shuffle reads, or kLanes if it is out of its segment.
unsigned shuffleSource(uint8_t mode, unsigned lane, uint32_t b, uint32_t c) {
  unsigned segment = c >> 8 & 31, clamp = c & 31;
  unsigned low = lane & segment, high = low | (clamp & ~segment);
  b &= 31;
  switch (mode) {
  case ShuffleUp: {
    int from = static_cast<int>(lane) - static_cast<int>(b);
    return from >= static_cast<int>(high) ? static_cast<unsigned>(from)
                                          : kLanes;
  }
  case ShuffleDown:
    return lane + b <= high ? lane + b : kLanes;
  case ShuffleBfly:
    return (lane ^ b) <= high ? lane ^ b : kLanes;
  default: {
    unsigned from = low | (b & ~segment);
    return from <= high ? from : kLanes;
  }
  }
}

} // namespace

Handler shardonnx::emulator::packHandler(unsigned bytes, unsigned part) {
  if (bytes == 4 && part == 2)
    return pack<uint32_t, uint16_t, 2>;
  if (bytes == 8 && part == 4)
    return pack<uint64_t, uint32_t, 2>;
  if (bytes == 8 && part == 2)
    return pack<uint64_t, uint16_t, 4>;
  return nullptr;
}

Handler shardonnx::emulator::unpackHandler(unsigned bytes, unsigned part) {
  if (bytes == 4 && part == 2)
    return unpack<uint32_t, uint16_t, 2>;
  if (bytes == 8 && part == 4)
    return unpack<uint64_t, uint32_t, 2>;
  if (bytes == 8 && part == 2)
    return unpack<uint64_t, uint16_t, 4>;
  return nullptr;
}

void shardonnx::emulator::shuffleLanes(Warp &w, const Instr &i) {
  const std::vector<uint32_t> &extra = w.block->program->lists[i.target];
  checkMembers(w, i, w.at<uint32_t>(extra[1]), "shuffle");
  const uint32_t *a = w.at<uint32_t>(i.a), *b = w.at<uint32_t>(i.b),
                 *c = w.at<uint32_t>(i.c);
  uint32_t result[kLanes], valid = 0;
  for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    unsigned from = shuffleSource(i.mode, l, b[l], c[l]);
    if (from < kLanes) {
      valid |= 1u << l;
      if (!(w.mask >> from & 1))
        fault(w, i, l, CUDA_ERROR_LAUNCH_FAILED,
              "shuffle from the inactive lane " + std::to_string(from));
    }
    result[l] = a[from < kLanes ? from : l];
  }
  uint32_t *d = w.at<uint32_t>(i.d);
  for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    d[l] = result[l];
  }
  if (extra[0] != kNowhere)
    w.setPredicate(extra[0], valid);
}

void shardonnx::emulator::voteLanes(Warp &w, const Instr &i) {
  checkMembers(w, i, w.at<uint32_t>(i.b), "vote");
  unsigned first = static_cast<unsigned>(__builtin_ctz(w.mask));
  uint32_t members = w.at<uint32_t>(i.b)[first] & w.mask;
  uint32_t p = (w.predicate(i.a) ^ static_cast<uint32_t>(i.imm)) & members;
  if (i.mode == VoteBallot)
    return forLanes(w, w.at<uint32_t>(i.d), [=](unsigned) { return p; });
  bool result = i.mode == VoteAll   ? p == members
                : i.mode == VoteAny ? p != 0
                                    : p == 0 || p == members;
  w.setPredicate(i.d, result ? kAllLanes : 0);
}

void shardonnx::emulator::matchLanes(Warp &w, const Instr &i) {
  checkMembers(w, i, w.at<uint32_t>(i.b), "match");
  uint32_t a[kLanes];
  std::memcpy(a, w.at<uint32_t>(i.a), sizeof a);
  forLanes(w, w.at<uint32_t>(i.d), [&](unsigned l) {
    uint32_t equal = 0;
    for (unsigned k = 0; k < kLanes; ++k)
      equal |= static_cast<uint32_t>(a[k] == a[l]) << k;
    return equal & w.mask;
  });
}

void shardonnx::emulator::readActiveMask(Warp &w, const Instr &i) {
  uint32_t mask = w.mask;
  forLanes(w, w.at<uint32_t>(i.d), [=](unsigned) { return mask; });
}

static uint32_t combine(uint8_t mode, uint32_t x, uint32_t y) {
  int32_t sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
  switch (mode) {
  case ReduceAdd:
    return x + y;
  case ReduceMinSigned:
    return static_cast<uint32_t>(std::min(sx, sy));
  case ReduceMaxSigned:
    return static_cast<uint32_t>(std::max(sx, sy));
  case ReduceMinUnsigned:
    return std::min(x, y);
  case ReduceMaxUnsigned:
    return std::max(x, y);
  case ReduceAnd:
    return x & y;
  case ReduceOr:
    return x | y;
  default:
    return x ^ y;
  }
}

void shardonnx::emulator::reduceLanes(Warp &w, const Instr &i) {
  checkMembers(w, i, w.at<uint32_t>(i.b), "redux");
  const uint32_t *a = w.at<uint32_t>(i.a);
  unsigned first = static_cast<unsigned>(__builtin_ctz(w.mask));
  uint32_t result = a[first];
  for (unsigned l = first + 1; l < kLanes; ++l)
    if (w.mask >> l & 1)
      result = combine(i.mode, result, a[l]);
  forLanes(w, w.at<uint32_t>(i.d), [=](unsigned) { return result; });
}

void shardonnx::emulator::syncWarp(Warp &w, const Instr &i) {
  checkMembers(w, i, w.at<uint32_t>(i.b), "bar.warp.sync");
  ++w.syncs;
}

void shardonnx::emulator::trapLanes(Warp &w, const Instr &i) {
  fault(w, i, static_cast<unsigned>(__builtin_ctz(w.mask)),
        CUDA_ERROR_LAUNCH_FAILED, "trap");
}

void shardonnx::emulator::waitForGrids(Warp &w, const Instr &) {
  w.depends = false;
}

void shardonnx::emulator::testSpace(Warp &w, const Instr &i) {
  const uint64_t *a = w.at<uint64_t>(i.a);
  uint32_t bits = 0;
  for (unsigned l = 0; l < kLanes; ++l) {
    uint64_t window = a[l] & kWindowMask;
    bool other = window == kSharedWindow || window == kLocalWindow ||
                 window == kParamWindow;
    bool here = i.imm ? window == static_cast<uint64_t>(i.imm) : !other;
    bits |= static_cast<uint32_t>(here) << l;
  }
  w.setPredicate(i.d, bits);
}

void shardonnx::emulator::startCopy(Warp &w, const Instr &i) {
  const std::vector<uint32_t> &extra = w.block->program->lists[i.target];
  unsigned bytes = extra[1];
  for (unsigned l = 0; l < kLanes; ++l) {
    if (!(w.mask >> l & 1))
      continue;
    uint64_t to = extra[0];
    if (i.d != kNowhere)
      to += extra[2] ? w.at<uint64_t>(i.d)[l] : w.at<uint32_t>(i.d)[l];
    unsigned read = extra[3] == kNowhere ? bytes : w.at<uint32_t>(extra[3])[l];
    uint64_t from = laneAddress(w, i, l);
    if (read > bytes)
      fault(w, i, l, CUDA_ERROR_ILLEGAL_ADDRESS,
            "cp.async reads more than it copies");
    if (read)
      resolveLane(w, i, l, Global, from, read, bytes, Use::Read);
    w.copies.push_back({from, to, static_cast<uint8_t>(bytes),
                        static_cast<uint8_t>(read), static_cast<uint8_t>(l),
                        w.copyGroup[l], &i});
  }
}

void shardonnx::emulator::commitCopies(Warp &w, const Instr &) {
  for (unsigned l = 0; l < kLanes; ++l)
    w.copyGroup[l] += w.mask >> l & 1;
}

void shardonnx::emulator::waitCopies(Warp &w, const Instr &i) {
  auto waits = [&](const PendingCopy &copy) {
    int64_t last =
        i.imm < 0 ? INT64_MAX : int64_t(w.copyGroup[copy.lane]) - 1 - i.imm;
    return (w.mask >> copy.lane & 1) && copy.group <= last;
  };
  for (const PendingCopy &copy : w.copies) {
    if (!waits(copy))
      continue;
    char *to = resolveLane(w, *copy.instr, copy.lane, Shared, copy.to,
                           copy.bytes, copy.bytes, Use::Write);
    std::memset(to, 0, copy.bytes);
    if (copy.sourceBytes)
      std::memcpy(to,
                  resolveLane(w, *copy.instr, copy.lane, Global, copy.from,
                              copy.sourceBytes, copy.bytes, Use::Read),
                  copy.sourceBytes);
  }
  w.copies.erase(std::remove_if(w.copies.begin(), w.copies.end(), waits),
                 w.copies.end());
}

void shardonnx::emulator::addWarpHandlers(HandlerTable &table) {
  table.add<uint32_t>("%clock", readClock);
  table.add<uint64_t>("%clock64", readClock64);
  table.add<uint64_t>("%globaltimer", readTimer);
  table.add<uint32_t>("%smid", readZero);
  table.add<uint32_t>("%gridid", readZero);
}
