// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table from names of instructions (with the modifiers that do not matter
// taken out) to the functions that run them.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_HANDLERS_H
#define SHARDONNX_TEST_CUDA_EMULATOR_HANDLERS_H

#include "Machine.h"
#include <string>
#include <unordered_map>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace shardonnx::emulator {

/// A predicate operand.
struct Pred {};
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Half2 {
  Half v[2];
};
struct BFloat2 {
  BFloat v[2];
};

class HandlerTable {
public:
  struct Entry {
    Handler run = nullptr;
    /// Bytes of each operand's register; 0 is a predicate.
    std::vector<unsigned> bytes;
  };

  template <class... Operands> void add(const std::string &name, Handler run) {
    entries[name] = {run, {bytesOf<Operands>()...}};
  }
  const Entry *find(const std::string &name) const {
    auto found = entries.find(name);
    return found == entries.end() ? nullptr : &found->second;
  }
  static const HandlerTable &get();

private:
  template <class T> static unsigned bytesOf() {
    return std::is_same<T, Pred>::value ? 0 : sizeof(T);
  }
  std::unordered_map<std::string, Entry> entries;
};

void addIntegerHandlers(HandlerTable &table);
void addBitHandlers(HandlerTable &table);
void addFloatHandlers(HandlerTable &table);
void addHalfHandlers(HandlerTable &table);
void addConvertHandlers(HandlerTable &table);
void addCompareHandlers(HandlerTable &table);
void addWarpHandlers(HandlerTable &table);
void addAtomicHandlers(HandlerTable &table);

/// "s32" and the like.
template <class T> std::string typeName();
#define SHX_TYPE_NAME(type, text)                                              \
  template <> inline std::string typeName<type>() { return text; }
SHX_TYPE_NAME(int8_t, "s8")
SHX_TYPE_NAME(uint8_t, "u8")
SHX_TYPE_NAME(int16_t, "s16")
SHX_TYPE_NAME(uint16_t, "u16")
SHX_TYPE_NAME(int32_t, "s32")
SHX_TYPE_NAME(uint32_t, "u32")
SHX_TYPE_NAME(int64_t, "s64")
SHX_TYPE_NAME(uint64_t, "u64")
SHX_TYPE_NAME(float, "f32")
SHX_TYPE_NAME(double, "f64")
SHX_TYPE_NAME(Half, "f16")
SHX_TYPE_NAME(BFloat, "bf16")
SHX_TYPE_NAME(Half2, "f16x2")
SHX_TYPE_NAME(BFloat2, "bf16x2")
#undef SHX_TYPE_NAME

template <class D, class A, class F>
inline void map1(Warp &w, const Instr &i, F f) {
  const A *a = w.at<A>(i.a);
  forLanes(w, w.at<D>(i.d), [=](unsigned l) { return f(a[l]); });
}

template <class D, class A, class B, class F>
inline void map2(Warp &w, const Instr &i, F f) {
  const A *a = w.at<A>(i.a);
  const B *b = w.at<B>(i.b);
  forLanes(w, w.at<D>(i.d), [=](unsigned l) { return f(a[l], b[l]); });
}

template <class D, class A, class B, class C, class F>
inline void map3(Warp &w, const Instr &i, F f) {
  const A *a = w.at<A>(i.a);
  const B *b = w.at<B>(i.b);
  const C *c = w.at<C>(i.c);
  forLanes(w, w.at<D>(i.d), [=](unsigned l) { return f(a[l], b[l], c[l]); });
}

/// One bit a lane from bytes that are 0 or 255.
inline uint32_t packMask(const uint8_t *bytes) {
#ifdef __AVX2__
  return static_cast<uint32_t>(_mm256_movemask_epi8(
      _mm256_load_si256(reinterpret_cast<const __m256i *>(bytes))));
#else
  uint32_t bits = 0;
  for (unsigned l = 0; l < kLanes; ++l)
    bits |= static_cast<uint32_t>(bytes[l] & 1) << l;
  return bits;
#endif
}

// Half precision, as arrays.
void widen(const Half *from, float *to, unsigned count);
void widen(const BFloat *from, float *to, unsigned count);
void narrow(const float *from, Half *to, unsigned count);
void narrow(const float *from, BFloat *to, unsigned count);
float toFloat(Half value);
float toFloat(BFloat value);
Half toHalf(float value);
BFloat toBFloat(float value);

template <class To, class From> inline To bitcast(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

} // namespace shardonnx::emulator

#endif
