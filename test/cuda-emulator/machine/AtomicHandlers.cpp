// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// atom and red. Blocks run on several threads: a lock of the address's own
// makes each operation one.

#include "Access.h"
#include "Handlers.h"
#include <algorithm>
#include <mutex>

using namespace shardonnx::emulator;

namespace {

std::mutex &lockOf(const void *address) {
  static std::mutex locks[64];
  return locks[reinterpret_cast<uintptr_t>(address) / 8 % 64];
}

template <class T, class F> void atomic(Warp &w, const Instr &i, F f) {
  Resolved at;
  resolve(w, i, static_cast<Space>(i.mode), sizeof(T), Use::Atomic, at);
  const T *b = w.at<T>(i.b);
  const T *c = i.c == kNowhere ? b : w.at<T>(i.c);
  for (uint32_t rest = w.mask; rest; rest &= rest - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    std::lock_guard<std::mutex> lock(lockOf(at.p[l]));
    T old;
    std::memcpy(&old, at.p[l], sizeof old);
    T value = f(old, b[l], c[l]);
    std::memcpy(at.p[l], &value, sizeof value);
    if (i.d != kNowhere)
      w.at<T>(i.d)[l] = old;
  }
}

#define ATOMIC(name, expression)                                               \
  table.add<T, T, T>(                                                          \
      std::string("atom.") + (name) + "." + n, [](Warp &w, const Instr &i) {   \
        atomic<T>(w, i,                                                        \
                  [](T a, T b, T) { return static_cast<T>(expression); });     \
      })

template <class T> void addInteger(HandlerTable &table) {
  const std::string n = typeName<T>();
  ATOMIC("add", static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  ATOMIC("min", std::min(a, b));
  ATOMIC("max", std::max(a, b));
}

template <class T> void addBits(HandlerTable &table) {
  const std::string n = "b" + std::to_string(sizeof(T) * 8);
  ATOMIC("and", a & b);
  ATOMIC("or", a | b);
  ATOMIC("xor", a ^ b);
  ATOMIC("exch", (void(a), b));
  table.add<T, T, T, T>("atom.cas." + n, [](Warp &w, const Instr &i) {
    atomic<T>(w, i, [](T a, T b, T c) { return a == b ? c : a; });
  });
}

template <class T> void addFloating(HandlerTable &table) {
  const std::string n = typeName<T>();
  ATOMIC("add", a + b);
}

inline Half sum(Half a, Half b) { return toHalf(toFloat(a) + toFloat(b)); }
inline BFloat sum(BFloat a, BFloat b) {
  return toBFloat(toFloat(a) + toFloat(b));
}

template <class E, class T> void addHalf(HandlerTable &table) {
  table.add<E, E, E>("atom.add." + typeName<E>(), [](Warp &w, const Instr &i) {
    atomic<E>(w, i, [](E a, E b, E) { return sum(a, b); });
  });
  table.add<T, T, T>("atom.add." + typeName<T>(), [](Warp &w, const Instr &i) {
    atomic<T>(w, i, [](T a, T b, T) {
      return T{{sum(a.v[0], b.v[0]), sum(a.v[1], b.v[1])}};
    });
  });
}

} // namespace

void shardonnx::emulator::addAtomicHandlers(HandlerTable &table) {
  addInteger<int32_t>(table);
  addInteger<uint32_t>(table);
  addInteger<int64_t>(table);
  addInteger<uint64_t>(table);
  addBits<uint16_t>(table);
  addBits<uint32_t>(table);
  addBits<uint64_t>(table);
  addFloating<float>(table);
  addFloating<double>(table);
  addHalf<Half, Half2>(table);
  addHalf<BFloat, BFloat2>(table);
  {
    using T = uint32_t;
    const std::string n = "u32";
    ATOMIC("inc", a >= b ? 0 : a + 1);
    ATOMIC("dec", a == 0 || a > b ? b : a - 1);
  }
}
