// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f16 and bf16 arithmetic, alone and in pairs: computed in f32 and rounded
// once, which is exact for sums, products and quotients.

#include "Handlers.h"
#include <cmath>

using namespace shardonnx::emulator;

float shardonnx::emulator::toFloat(BFloat value) {
  return bitcast<float>(static_cast<uint32_t>(value.bits) << 16);
}

BFloat shardonnx::emulator::toBFloat(float value) {
  uint32_t bits = bitcast<uint32_t>(value);
  bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return {static_cast<uint16_t>(nan ? 0x7fffu : rounded)};
}

#ifdef __F16C__
float shardonnx::emulator::toFloat(Half value) { return _cvtsh_ss(value.bits); }

Half shardonnx::emulator::toHalf(float value) {
  uint16_t bits = static_cast<uint16_t>(_cvtss_sh(value, 0));
  return {value != value ? uint16_t(0x7fff) : bits};
}
#else
float shardonnx::emulator::toFloat(Half value) {
  uint32_t exponent = value.bits >> 10 & 31, mantissa = value.bits & 1023;
  float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                    : exponent
                        ? std::ldexp(float(mantissa | 1024), int(exponent) - 25)
                        : std::ldexp(float(mantissa), -24);
  return value.bits >> 15 ? -magnitude : magnitude;
}

Half shardonnx::emulator::toHalf(float value) {
  if (value != value)
    return {0x7fff};
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f)
    return {static_cast<uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x1p-14f) // subnormals count units of 2^-24
    return {static_cast<uint16_t>(
        sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)))};
  uint32_t bits = bitcast<uint32_t>(magnitude);
  bits += 0xfffu + (bits >> 13 & 1);
  return {static_cast<uint16_t>(sign | ((bits >> 13) - (112u << 10)))};
}
#endif

void shardonnx::emulator::widen(const Half *from, float *to, unsigned count) {
#ifdef __F16C__
  for (unsigned i = 0; i < count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                 reinterpret_cast<const __m128i *>(from + i))));
#else
  for (unsigned i = 0; i < count; ++i)
    to[i] = toFloat(from[i]);
#endif
}

void shardonnx::emulator::widen(const BFloat *from, float *to, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    to[i] = toFloat(from[i]);
}

void shardonnx::emulator::narrow(const float *from, Half *to, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    to[i] = toHalf(from[i]);
}

void shardonnx::emulator::narrow(const float *from, BFloat *to,
                                 unsigned count) {
#pragma GCC ivdep
  for (unsigned i = 0; i < count; ++i)
    to[i] = toBFloat(from[i]);
}

namespace {

float least(float a, float b) {
  return a != a ? b
                : (b != b ? a : (a < b || (a == b && std::signbit(a)) ? a : b));
}
float most(float a, float b) {
  return a != a ? b
                : (b != b ? a : (a > b || (a == b && std::signbit(b)) ? a : b));
}
float relu(float a) { return a > 0 ? a : 0.0f; }

/// Register R holds sizeof(R) / 2 elements E.
template <class E, class R> struct Lanes {
  static constexpr unsigned count = kLanes * sizeof(R) / 2;
  alignas(64) float v[count];
  Lanes() = default;
  Lanes(Warp &w, Ref ref) { widen(w.at<E>(ref), v, count); }
  void store(Warp &w, Ref ref) {
    alignas(64) E out[count];
    narrow(v, out, count);
    R result[kLanes];
    std::memcpy(result, out, sizeof result);
    forLanes(w, w.at<R>(ref), [&](unsigned l) { return result[l]; });
  }
};

#define HALF_UNARY(name, expression)                                           \
  table.add<R, R>(std::string(name) + "." + n, [](Warp &w, const Instr &i) {   \
    Lanes<E, R> x(w, i.a), r;                                                  \
    for (unsigned k = 0; k < r.count; ++k) {                                   \
      float a = x.v[k];                                                        \
      r.v[k] = expression;                                                     \
    }                                                                          \
    r.store(w, i.d);                                                           \
  })
#define HALF_BINARY(name, expression)                                          \
  table.add<R, R, R>(std::string(name) + "." + n,                              \
                     [](Warp &w, const Instr &i) {                             \
                       Lanes<E, R> x(w, i.a), y(w, i.b), r;                    \
                       for (unsigned k = 0; k < r.count; ++k) {                \
                         float a = x.v[k], b = y.v[k];                         \
                         r.v[k] = expression;                                  \
                       }                                                       \
                       r.store(w, i.d);                                        \
                     })
#define HALF_TERNARY(name, expression)                                         \
  table.add<R, R, R, R>(std::string(name) + "." + n,                           \
                        [](Warp &w, const Instr &i) {                          \
                          Lanes<E, R> x(w, i.a), y(w, i.b), z(w, i.c), r;      \
                          for (unsigned k = 0; k < r.count; ++k) {             \
                            float a = x.v[k], b = y.v[k], c = z.v[k];          \
                            r.v[k] = expression;                               \
                          }                                                    \
                          r.store(w, i.d);                                     \
                        })

/// neg and abs only touch signs, so that NaNs keep their bits.
template <class R> void addSigns(HandlerTable &table, const std::string &n) {
  using U = std::conditional_t<sizeof(R) == 2, uint16_t, uint32_t>;
  constexpr U signs = static_cast<U>(0x80008000u);
  table.add<R, R>("neg." + n, [](Warp &w, const Instr &i) {
    map1<U, U>(w, i, [](U a) { return static_cast<U>(a ^ signs); });
  });
  table.add<R, R>("abs." + n, [](Warp &w, const Instr &i) {
    map1<U, U>(w, i, [](U a) { return static_cast<U>(a & ~signs); });
  });
}

template <class E, class R> void addHalf(HandlerTable &table) {
  const std::string n = typeName<R>();
  HALF_BINARY("add", a + b);
  HALF_BINARY("sub", a - b);
  HALF_BINARY("mul", a * b);
  HALF_TERNARY("fma",
               static_cast<float>(std::fma(double(a), double(b), double(c))));
  HALF_TERNARY("fma.relu", relu(std::fma(a, b, c)));
  HALF_BINARY("min", least(a, b));
  HALF_BINARY("max", most(a, b));
  HALF_BINARY("min.NaN", a != a || b != b ? NAN : least(a, b));
  HALF_BINARY("max.NaN", a != a || b != b ? NAN : most(a, b));
  HALF_UNARY("ex2", std::exp2(a));
  HALF_UNARY("tanh", std::tanh(a));
  addSigns<R>(table, n);
}

} // namespace

void shardonnx::emulator::addHalfHandlers(HandlerTable &table) {
  addHalf<Half, Half>(table);
  addHalf<Half, Half2>(table);
  addHalf<BFloat, BFloat>(table);
  addHalf<BFloat, BFloat2>(table);
}
