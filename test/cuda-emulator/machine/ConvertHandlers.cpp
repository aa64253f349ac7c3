// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cvt between types of their own register's size; the decoder widens and cuts
// registers of other sizes with instructions of its own.

#include "Float8.h"
#include "Handlers.h"
#include <cmath>
#include <limits>

using namespace shardonnx::emulator;

namespace {

template <class D, class S> D saturateInteger(S value) {
  using W = __int128_t;
  W low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
  W v = value;
  return static_cast<D>(v < low ? low : v > high ? high : v);
}

template <class D, class S> void addIntegerPair(HandlerTable &table) {
  std::string types = typeName<D>() + "." + typeName<S>();
  table.add<D, S>("cvt." + types, [](Warp &w, const Instr &i) {
    map1<D, S>(w, i, [](S a) { return static_cast<D>(a); });
  });
  table.add<D, S>("cvt.sat." + types, [](Warp &w, const Instr &i) {
    map1<D, S>(w, i, [](S a) { return saturateInteger<D, S>(a); });
  });
}

/// A float, already integral, clamped into D; NaN gives 0.
template <class D, class F> D clampToInteger(F value) {
  // The limits as floats: the upper one may round up to a power of two.
  const F low = static_cast<F>(std::numeric_limits<D>::min());
  const F high = static_cast<F>(std::numeric_limits<D>::max());
  if (value != value)
    return 0;
  if (value <= low)
    return std::numeric_limits<D>::min();
  if (value >= high)
    return std::numeric_limits<D>::max();
  return static_cast<D>(value);
}

template <class F> F loadFloat(F value) { return value; }
inline float loadFloat(Half value) { return toFloat(value); }
inline float loadFloat(BFloat value) { return toFloat(value); }

template <class D> D storeFloat(double value) { return static_cast<D>(value); }
template <> Half storeFloat<Half>(double value) {
  return toHalf(static_cast<float>(value));
}
template <> BFloat storeFloat<BFloat>(double value) {
  return toBFloat(static_cast<float>(value));
}

#define FLOAT_TO_INTEGER(mode, function)                                       \
  table.add<D, S>(mode + types, [](Warp &w, const Instr &i) {                  \
    map1<D, S>(w, i,                                                           \
               [](S a) { return clampToInteger<D>(function(loadFloat(a))); }); \
  })

template <class D, class S> void addFloatIntegerPair(HandlerTable &table) {
  for (const char *sat : {"", "sat."}) {
    std::string types = sat + typeName<D>() + "." + typeName<S>();
    FLOAT_TO_INTEGER("cvt.rzi.", std::trunc);
    FLOAT_TO_INTEGER("cvt.rni.", std::nearbyint);
    FLOAT_TO_INTEGER("cvt.rmi.", std::floor);
    FLOAT_TO_INTEGER("cvt.rpi.", std::ceil);
  }
  table.add<S, D>("cvt." + typeName<S>() + "." + typeName<D>(),
                  [](Warp &w, const Instr &i) {
                    map1<S, D>(w, i, [](D a) {
                      if constexpr (std::is_floating_point<S>::value)
                        return static_cast<S>(a);
                      else
                        return storeFloat<S>(static_cast<double>(a));
                    });
                  });
}

template <class D> void addIntegerTo(HandlerTable &table) {
  addIntegerPair<D, int8_t>(table);
  addIntegerPair<D, uint8_t>(table);
  addIntegerPair<D, int16_t>(table);
  addIntegerPair<D, uint16_t>(table);
  addIntegerPair<D, int32_t>(table);
  addIntegerPair<D, uint32_t>(table);
  addIntegerPair<D, int64_t>(table);
  addIntegerPair<D, uint64_t>(table);
  addFloatIntegerPair<D, Half>(table);
  addFloatIntegerPair<D, BFloat>(table);
  addFloatIntegerPair<D, float>(table);
  addFloatIntegerPair<D, double>(table);
}

/// Rounding to an integral value, saturation to [0, 1], or nothing.
#define SAME_SIZE(name, expression)                                            \
  table.add<T, T>("cvt." name + types, [](Warp &w, const Instr &i) {           \
    map1<T, T>(w, i, [](T a) { return static_cast<T>(expression); });          \
  })

template <class T> void addRounding(HandlerTable &table) {
  std::string types = typeName<T>() + "." + typeName<T>();
  SAME_SIZE("rni.", std::nearbyint(a));
  SAME_SIZE("rzi.", std::trunc(a));
  SAME_SIZE("rmi.", std::floor(a));
  SAME_SIZE("rpi.", std::ceil(a));
  SAME_SIZE("sat.", (a > 0 ? (a < 1 ? a : T(1)) : T(0)));
  SAME_SIZE("", a);
}

/// bf16 cut off, not rounded; f16 rounded towards zero.
BFloat truncateTo(float a, BFloat) {
  uint32_t bits = bitcast<uint32_t>(a);
  bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>(nan ? 0x7fffu : bits >> 16)};
}
Half truncateTo(float a, Half) {
  Half nearest = toHalf(a);
  if (std::fabs(toFloat(nearest)) > std::fabs(a))
    --nearest.bits;
  return nearest;
}

template <class E> void addHalf(HandlerTable &table) {
  const std::string n = typeName<E>();
  table.add<float, E>("cvt.f32." + n, [](Warp &w, const Instr &i) {
    alignas(64) float v[kLanes];
    widen(w.at<E>(i.a), v, kLanes);
    forLanes(w, w.at<float>(i.d), [&](unsigned l) { return v[l]; });
  });
  table.add<double, E>("cvt.f64." + n, [](Warp &w, const Instr &i) {
    map1<double, E>(w, i, [](E a) { return double(toFloat(a)); });
  });
  table.add<E, float>("cvt." + n + ".f32", [](Warp &w, const Instr &i) {
    alignas(64) E v[kLanes];
    narrow(w.at<float>(i.a), v, kLanes);
    forLanes(w, w.at<E>(i.d), [&](unsigned l) { return v[l]; });
  });
  table.add<E, float>("cvt.relu." + n + ".f32", [](Warp &w, const Instr &i) {
    map1<E, float>(w, i,
                   [](float a) { return storeFloat<E>(a > 0 ? a : 0.0f); });
  });
  table.add<E, float>("cvt.rz." + n + ".f32", [](Warp &w, const Instr &i) {
    map1<E, float>(w, i, [](float a) { return truncateTo(a, E()); });
  });
  table.add<E, double>("cvt." + n + ".f64", [](Warp &w, const Instr &i) {
    map1<E, double>(w, i, [](double a) { return storeFloat<E>(a); });
  });
  table.add<E, E>("cvt." + n + "." + n, [](Warp &w, const Instr &i) {
    map1<E, E>(w, i, [](E a) { return a; });
  });
}

/// The first source is the upper half.
template <class E, class R, bool relu> void packPair(Warp &w, const Instr &i) {
  alignas(64) float high[kLanes], low[kLanes];
  std::memcpy(high, w.at<float>(i.a), sizeof high);
  std::memcpy(low, w.at<float>(i.b), sizeof low);
  if (relu)
    for (unsigned l = 0; l < kLanes; ++l) {
      high[l] = high[l] > 0 ? high[l] : 0.0f;
      low[l] = low[l] > 0 ? low[l] : 0.0f;
    }
  alignas(64) E packedHigh[kLanes], packedLow[kLanes];
  narrow(high, packedHigh, kLanes);
  narrow(low, packedLow, kLanes);
  forLanes(w, w.at<uint32_t>(i.d), [&](unsigned l) {
    return static_cast<uint32_t>(packedLow[l].bits) |
           static_cast<uint32_t>(packedHigh[l].bits) << 16;
  });
}

template <class E, class R> void addPairs(HandlerTable &table) {
  const std::string n = typeName<R>() + ".f32";
  table.add<R, float, float>("cvt." + n, packPair<E, R, false>);
  table.add<R, float, float>("cvt.relu." + n, packPair<E, R, true>);
}

/// The first source is the upper half.
template <const Float8 &Format> void packF8(Warp &w, const Instr &i) {
  map2<uint16_t, float, float>(w, i, [](float high, float low) {
    return static_cast<uint16_t>(Format.fromFloat(high) << 8 |
                                 Format.fromFloat(low));
  });
}

/// 10 bits of mantissa; ties away from zero (rna) or to even (rn).
void addTensorFloat(HandlerTable &table) {
  using U = uint32_t;
  Handler away = [](Warp &w, const Instr &i) {
    map1<U, U>(w, i, [](U a) {
      bool special = (a & 0x7f800000u) == 0x7f800000u;
      return special ? a : (a + 0x1000u) & ~0x1fffu;
    });
  };
  table.add<U, U>("cvt.rna.tf32.f32", away);
  table.add<U, U>("cvt.tf32.f32", [](Warp &w, const Instr &i) {
    map1<U, U>(w, i, [](U a) {
      bool special = (a & 0x7f800000u) == 0x7f800000u;
      return special ? a : (a + 0xfffu + (a >> 13 & 1)) & ~0x1fffu;
    });
  });
}

} // namespace

void shardonnx::emulator::addConvertHandlers(HandlerTable &table) {
  addIntegerTo<int8_t>(table);
  addIntegerTo<uint8_t>(table);
  addIntegerTo<int16_t>(table);
  addIntegerTo<uint16_t>(table);
  addIntegerTo<int32_t>(table);
  addIntegerTo<uint32_t>(table);
  addIntegerTo<int64_t>(table);
  addIntegerTo<uint64_t>(table);
  addRounding<float>(table);
  addRounding<double>(table);
  addHalf<Half>(table);
  addHalf<BFloat>(table);
  addPairs<Half, Half2>(table);
  addPairs<BFloat, BFloat2>(table);
  addTensorFloat(table);
  table.add<uint16_t, float, float>("cvt.e4m3x2.f32", packF8<kE4M3>);
  table.add<uint16_t, float, float>("cvt.e5m2x2.f32", packF8<kE5M2>);
  table.add<double, float>("cvt.f64.f32", [](Warp &w, const Instr &i) {
    map1<double, float>(w, i, [](float a) { return double(a); });
  });
  table.add<float, double>("cvt.f32.f64", [](Warp &w, const Instr &i) {
    map1<float, double>(w, i, [](double a) { return float(a); });
  });
}
