// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// setp, set and selp.

#include "Handlers.h"
#include <cmath>

using namespace shardonnx::emulator;

namespace {

/// Instr::mode of setp: what the result is combined with operand c by.
enum Combine : uint8_t { None, And, Or, Xor };

/// Sets d (and lists[target][0], the complement's register, if target is set).
void storeResult(Warp &w, const Instr &i, uint32_t bits) {
  uint32_t inverse = ~bits;
  if (i.mode) {
    uint32_t c = w.predicate(i.c);
    // A negated third operand.
    c ^= static_cast<uint32_t>(i.imm);
    auto combine = [&](uint32_t x) {
      return i.mode == And ? x & c : i.mode == Or ? x | c : x ^ c;
    };
    bits = combine(bits);
    inverse = combine(inverse);
  }
  w.setPredicate(i.d, bits);
  if (i.target)
    w.setPredicate(w.block->program->lists[i.target][0], inverse);
}

template <class A, class F> void compare(Warp &w, const Instr &i, F f) {
  const A *a = w.at<A>(i.a), *b = w.at<A>(i.b);
  alignas(32) uint8_t result[kLanes];
#pragma GCC ivdep
  for (unsigned l = 0; l < kLanes; ++l)
    result[l] = f(a[l], b[l]) ? 255 : 0;
  storeResult(w, i, packMask(result));
}

template <class E, class F> void compareHalf(Warp &w, const Instr &i, F f) {
  float a[kLanes], b[kLanes];
  widen(w.at<E>(i.a), a, kLanes);
  widen(w.at<E>(i.b), b, kLanes);
  alignas(32) uint8_t result[kLanes];
  for (unsigned l = 0; l < kLanes; ++l)
    result[l] = f(a[l], b[l]) ? 255 : 0;
  storeResult(w, i, packMask(result));
}

#define COMPARE(name, expression)                                              \
  table.add<Pred, T, T>(                                                       \
      std::string("setp.") + (name) + "." + n, [](Warp &w, const Instr &i) {   \
        compare<T>(w, i, [](T a, T b) { return expression; });                 \
      });                                                                      \
  table.add<uint32_t, T, T>(std::string("set.") + (name) + ".u32." + n,        \
                            [](Warp &w, const Instr &i) {                      \
                              map2<uint32_t, T, T>(w, i, [](T a, T b) {        \
                                return expression ? ~0u : 0u;                  \
                              });                                              \
                            });                                                \
  table.add<uint32_t, T, T>(std::string("set.") + (name) + ".f32." + n,        \
                            [](Warp &w, const Instr &i) {                      \
                              map2<float, T, T>(w, i, [](T a, T b) {           \
                                return expression ? 1.0f : 0.0f;               \
                              });                                              \
                            })

template <class T> void addOrdered(HandlerTable &table, const std::string &n) {
  COMPARE("eq", a == b);
  COMPARE("ne", a < b || a > b);
  COMPARE("lt", a < b);
  COMPARE("le", a <= b);
  COMPARE("gt", a > b);
  COMPARE("ge", a >= b);
}

template <class T> void addUnsigned(HandlerTable &table) {
  const std::string n = typeName<T>();
  addOrdered<T>(table, n);
  COMPARE("lo", a < b);
  COMPARE("ls", a <= b);
  COMPARE("hi", a > b);
  COMPARE("hs", a >= b);
  const std::string bits = "b" + n.substr(1);
  for (const char *name : {"eq", "ne"})
    table.add<Pred, T, T>(
        std::string("setp.") + name + "." + bits,
        table.find(std::string("setp.") + name + "." + n)->run);
}

#define UNORDERED(ADD)                                                         \
  ADD("equ", !(a < b || a > b));                                               \
  ADD("neu", !(a == b));                                                       \
  ADD("ltu", !(a >= b));                                                       \
  ADD("leu", !(a > b));                                                        \
  ADD("gtu", !(a <= b));                                                       \
  ADD("geu", !(a < b));                                                        \
  ADD("num", a == a && b == b);                                                \
  ADD("nan", a != a || b != b)

template <class T> void addFloating(HandlerTable &table) {
  const std::string n = typeName<T>();
  addOrdered<T>(table, n);
  UNORDERED(COMPARE);
}

#define COMPARE_HALF(name, expression)                                         \
  table.add<Pred, E, E>(                                                       \
      std::string("setp.") + (name) + "." + n, [](Warp &w, const Instr &i) {   \
        compareHalf<E>(w, i, [](float a, float b) { return expression; });     \
      })

template <class E> void addHalf(HandlerTable &table) {
  const std::string n = typeName<E>();
  COMPARE_HALF("eq", a == b);
  COMPARE_HALF("ne", a < b || a > b);
  COMPARE_HALF("lt", a < b);
  COMPARE_HALF("le", a <= b);
  COMPARE_HALF("gt", a > b);
  COMPARE_HALF("ge", a >= b);
  UNORDERED(COMPARE_HALF);
}

/// Both are bits: only the size matters.
template <class T> void addSelect(HandlerTable &table) {
  const std::string bits = std::to_string(sizeof(T) * 8);
  for (const char *kind : {"b", "u", "s", "f"})
    table.add<T, T, T, Pred>(
        std::string("selp.") + kind + bits, [](Warp &w, const Instr &i) {
          const T *a = w.at<T>(i.a), *b = w.at<T>(i.b);
          uint32_t p = w.predicate(i.c) ^ static_cast<uint32_t>(i.imm);
          forLanes(w, w.at<T>(i.d),
                   [=](unsigned l) { return p >> l & 1 ? a[l] : b[l]; });
        });
}

} // namespace

void shardonnx::emulator::addCompareHandlers(HandlerTable &table) {
  addOrdered<int16_t>(table, "s16");
  addOrdered<int32_t>(table, "s32");
  addOrdered<int64_t>(table, "s64");
  addUnsigned<uint16_t>(table);
  addUnsigned<uint32_t>(table);
  addUnsigned<uint64_t>(table);
  addFloating<float>(table);
  addFloating<double>(table);
  addHalf<Half>(table);
  addHalf<BFloat>(table);
  addSelect<uint16_t>(table);
  addSelect<uint32_t>(table);
  addSelect<uint64_t>(table);
}
