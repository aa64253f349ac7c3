// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integer arithmetic.

#include "LaneMacros.h"
#include <algorithm>
#include <limits>
#include <type_traits>

using namespace shardonnx::emulator;

namespace {

template <size_t Bytes, bool Signed> struct WiderOf;
template <> struct WiderOf<2, true> {
  using type = int32_t;
};
template <> struct WiderOf<2, false> {
  using type = uint32_t;
};
template <> struct WiderOf<4, true> {
  using type = int64_t;
};
template <> struct WiderOf<4, false> {
  using type = uint64_t;
};
__extension__ template <> struct WiderOf<8, true> {
  using type = __int128;
};
__extension__ template <> struct WiderOf<8, false> {
  using type = unsigned __int128;
};
template <class T>
using Wider = typename WiderOf<sizeof(T), std::is_signed<T>::value>::type;
template <class T> using Bits = std::make_unsigned_t<T>;

/// Division as the hardware does it: no trap, all ones for a zero divisor.
template <class T> T quotient(T a, T b) {
  if (b == 0)
    return static_cast<T>(-1);
  if (std::is_signed<T>::value && b == static_cast<T>(-1))
    return static_cast<T>(0 - static_cast<Bits<T>>(a));
  return static_cast<T>(a / b);
}

template <class T> T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (std::is_signed<T>::value && b == static_cast<T>(-1))
    return 0;
  return static_cast<T>(a % b);
}

template <class T> T highHalf(T a, T b) {
  return static_cast<T>((static_cast<Wider<T>>(a) * b) >> (sizeof(T) * 8));
}

/// Sums wrap: they are made in the unsigned type.
template <class T> void addArithmetic(HandlerTable &table) {
  const std::string n = typeName<T>();
  using U = Bits<T>;
  BINARY("add", static_cast<U>(a) + static_cast<U>(b));
  BINARY("sub", static_cast<U>(a) - static_cast<U>(b));
  BINARY("mul.lo", static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  BINARY("mul.hi", highHalf(a, b));
  TERNARY("mad.lo", static_cast<uint64_t>(a) * static_cast<uint64_t>(b) +
                        static_cast<uint64_t>(c));
  TERNARY("mad.hi", static_cast<U>(highHalf(a, b)) + static_cast<U>(c));
  BINARY("div", quotient(a, b));
  BINARY("rem", remainder(a, b));
  BINARY("min", std::min(a, b));
  BINARY("max", std::max(a, b));
}

template <class T> void addSigned(HandlerTable &table) {
  const std::string n = typeName<T>();
  using U = Bits<T>;
  UNARY("neg", 0 - static_cast<U>(a));
  UNARY("abs",
        a < 0 ? static_cast<U>(0 - static_cast<U>(a)) : static_cast<U>(a));
}

template <class T> void addWide(HandlerTable &table) {
  using W = Wider<T>;
  table.add<W, T, T>("mul.wide." + typeName<T>(), [](Warp &w, const Instr &i) {
    map2<W, T, T>(
        w, i, [](T a, T b) { return static_cast<W>(static_cast<W>(a) * b); });
  });
  table.add<W, T, T, W>(
      "mad.wide." + typeName<T>(), [](Warp &w, const Instr &i) {
        map3<W, T, T, W>(w, i, [](T a, T b, W c) {
          using U = Bits<W>;
          return static_cast<W>(
              static_cast<U>(static_cast<W>(static_cast<W>(a) * b)) +
              static_cast<U>(c));
        });
      });
}

/// Sum of absolute differences and saturating sums.
void addRare(HandlerTable &table) {
  {
    using T = int32_t;
    const std::string n = "s32";
    BINARY("add.sat",
           std::min<int64_t>(std::max<int64_t>(int64_t(a) + b, INT32_MIN),
                             INT32_MAX));
    BINARY("sub.sat",
           std::min<int64_t>(std::max<int64_t>(int64_t(a) - b, INT32_MIN),
                             INT32_MAX));
    TERNARY("sad", static_cast<uint32_t>(c) +
                       static_cast<uint32_t>(std::abs(int64_t(a) - b)));
  }
  {
    using T = uint32_t;
    const std::string n = "u32";
    TERNARY("sad", c + static_cast<uint32_t>(
                           std::abs(int64_t(a) - static_cast<int64_t>(b))));
  }
}

/// add.cc, addc: the carry is a predicate of the frame, set up by the decoder.
template <class T> void addCarry(HandlerTable &table) {
  const std::string n = typeName<T>();
  using U = Bits<T>;
  auto run = [](Warp &w, const Instr &i) {
    const T *a = w.at<T>(i.a), *b = w.at<T>(i.b);
    T *d = w.at<T>(i.d);
    uint32_t carryIn = i.mode & 1 ? w.predicate(i.c) : 0, carryOut = 0;
    bool subtract = i.mode & 4;
    for (unsigned l = 0; l < kLanes; ++l) {
      if (!(w.mask >> l & 1))
        continue;
      U c = carryIn >> l & 1, x = static_cast<U>(a[l]),
        y = static_cast<U>(b[l]);
      U sum = subtract ? U(x - y - c) : U(x + y + c);
      bool out =
          subtract ? (x < y || (x == y && c)) : (sum < x || (c && sum == x));
      carryOut |= static_cast<uint32_t>(out) << l;
      d[l] = static_cast<T>(sum);
    }
    if (i.mode & 2)
      w.setPredicate(i.c, carryOut);
  };
  for (const char *name :
       {"add.cc.", "addc.", "addc.cc.", "sub.cc.", "subc.", "subc.cc."})
    table.add<T, T, T>(name + n, run);
}

} // namespace

void shardonnx::emulator::addIntegerHandlers(HandlerTable &table) {
  addArithmetic<int16_t>(table);
  addArithmetic<uint16_t>(table);
  addArithmetic<int32_t>(table);
  addArithmetic<uint32_t>(table);
  addArithmetic<int64_t>(table);
  addArithmetic<uint64_t>(table);
  addSigned<int16_t>(table);
  addSigned<int32_t>(table);
  addSigned<int64_t>(table);
  addWide<int16_t>(table);
  addWide<uint16_t>(table);
  addWide<int32_t>(table);
  addWide<uint32_t>(table);
  addCarry<int32_t>(table);
  addCarry<uint32_t>(table);
  addCarry<int64_t>(table);
  addCarry<uint64_t>(table);
  addRare(table);
}
