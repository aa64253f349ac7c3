// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Logic, shifts and bit fields.

#include "Handlers.h"
#include <algorithm>
#include <type_traits>

using namespace shardonnx::emulator;

namespace {

template <class T> T reverseBits(T value) {
  T result = 0;
  for (unsigned bit = 0; bit < sizeof(T) * 8; ++bit)
    result = static_cast<T>(result << 1 | (value >> bit & 1));
  return result;
}

template <class T> uint32_t leadingZeros(T value) {
  if (!value)
    return sizeof(T) * 8;
  return static_cast<uint32_t>(__builtin_clzll(value)) - (64 - sizeof(T) * 8);
}

/// Position of the highest bit that differs from the sign; ~0 without one.
template <class T> uint32_t findBit(T value, bool shiftAmount) {
  using U = std::make_unsigned_t<T>;
  U bits =
      static_cast<U>(std::is_signed<T>::value && value < 0 ? ~value : value);
  if (!bits)
    return ~0u;
  uint32_t zeros = leadingZeros<U>(bits);
  return shiftAmount ? zeros : sizeof(T) * 8 - 1 - zeros;
}

template <class T> T extractField(T value, uint32_t position, uint32_t length) {
  constexpr unsigned bits = sizeof(T) * 8;
  using U = std::make_unsigned_t<T>;
  position &= 255;
  length &= 255;
  if (!length)
    return 0;
  bool negative = std::is_signed<T>::value &&
                  (value >> std::min(position + length - 1, bits - 1) & 1);
  U field = position < bits ? static_cast<U>(value) >> position : 0;
  U mask = length < bits ? static_cast<U>((U(1) << length) - 1) : ~U(0);
  field &= mask;
  // Bits beyond the value are its sign.
  if (negative) {
    unsigned known = position < bits ? std::min(length, bits - position) : 0;
    field |= known < bits ? static_cast<U>(~U(0) << known) : 0;
  }
  return static_cast<T>(field);
}

template <class T>
T insertField(T field, T base, uint32_t position, uint32_t length) {
  constexpr unsigned bits = sizeof(T) * 8;
  position &= 255;
  length &= 255;
  if (position >= bits || !length)
    return base;
  T mask = length < bits ? static_cast<T>((T(1) << length) - 1) : ~T(0);
  mask = static_cast<T>(mask << position);
  return static_cast<T>((base & ~mask) | (field << position & mask));
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned k = 0; k < 4; ++k) {
    uint32_t select = selector >> (4 * k) & 15;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (select & 7)) & 255);
    if (select & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}

uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (table >> k & 1)
      result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}

#define BITS(name, arity, ...)                                                 \
  table.add<T, T BITS_##arity>(std::string(name) + n,                          \
                               [](Warp &w, const Instr &i) { __VA_ARGS__; })
#define BITS_1
#define BITS_2 , T
#define BITS_S , uint32_t

template <class T> void addLogic(HandlerTable &table) {
  const std::string n = ".b" + std::to_string(sizeof(T) * 8);
  constexpr unsigned bits = sizeof(T) * 8;
  BITS("and", 2, map2<T, T, T>(w, i, [](T a, T b) { return T(a & b); }));
  BITS("or", 2, map2<T, T, T>(w, i, [](T a, T b) { return T(a | b); }));
  BITS("xor", 2, map2<T, T, T>(w, i, [](T a, T b) { return T(a ^ b); }));
  BITS("not", 1, map1<T, T>(w, i, [](T a) { return T(~a); }));
  BITS("cnot", 1, map1<T, T>(w, i, [](T a) { return T(a ? 0 : 1); }));
  BITS("mov", 1, map1<T, T>(w, i, [](T a) { return a; }));
  BITS("shl", S, map2<T, T, uint32_t>(w, i, [](T a, uint32_t b) {
         return b < bits ? static_cast<T>(static_cast<uint64_t>(a) << b) : T(0);
       }));
}

template <class T> void addShiftRight(HandlerTable &table) {
  constexpr uint32_t bits = sizeof(T) * 8;
  Handler run = [](Warp &w, const Instr &i) {
    map2<T, T, uint32_t>(w, i, [](T a, uint32_t b) {
      if (std::is_signed<T>::value)
        return static_cast<T>(a >> std::min(b, bits - 1));
      return b < bits ? static_cast<T>(a >> b) : T(0);
    });
  };
  table.add<T, T, uint32_t>("shr." + typeName<T>(), run);
  if (!std::is_signed<T>::value)
    table.add<T, T, uint32_t>("shr.b" + std::to_string(bits), run);
}

template <class T> void addCounts(HandlerTable &table) {
  const std::string n = ".b" + std::to_string(sizeof(T) * 8);
  using U = uint32_t;
  table.add<U, T>("popc" + n, [](Warp &w, const Instr &i) {
    map1<U, T>(w, i, [](T a) { return U(__builtin_popcountll(a)); });
  });
  table.add<U, T>("clz" + n, [](Warp &w, const Instr &i) {
    map1<U, T>(w, i, [](T a) { return leadingZeros<T>(a); });
  });
  table.add<T, T>("brev" + n, [](Warp &w, const Instr &i) {
    map1<T, T>(w, i, [](T a) { return reverseBits<T>(a); });
  });
}

template <class T> void addFields(HandlerTable &table) {
  using U = uint32_t;
  const std::string n = typeName<T>();
  table.add<U, T>("bfind." + n, [](Warp &w, const Instr &i) {
    map1<U, T>(w, i, [](T a) { return findBit<T>(a, false); });
  });
  table.add<U, T>("bfind.shiftamt." + n, [](Warp &w, const Instr &i) {
    map1<U, T>(w, i, [](T a) { return findBit<T>(a, true); });
  });
  table.add<T, T, U, U>("bfe." + n, [](Warp &w, const Instr &i) {
    map3<T, T, U, U>(w, i,
                     [](T a, U b, U c) { return extractField<T>(a, b, c); });
  });
}

/// The fourth operand is lists[target][0].
template <class T> void addInsert(HandlerTable &table) {
  using U = uint32_t;
  table.add<T, T, T, U, U>(
      "bfi.b" + std::to_string(sizeof(T) * 8), [](Warp &w, const Instr &i) {
        const U *length = w.at<U>(w.block->program->lists[i.target][0]);
        const T *a = w.at<T>(i.a), *b = w.at<T>(i.b);
        const U *position = w.at<U>(i.c);
        forLanes(w, w.at<T>(i.d), [=](unsigned l) {
          return insertField<T>(a[l], b[l], position[l], length[l]);
        });
      });
}

uint32_t funnel(bool left, bool wrap, uint32_t a, uint32_t b, uint32_t c) {
  uint64_t value = static_cast<uint64_t>(b) << 32 | a;
  uint32_t shift = wrap ? c & 31 : std::min(c, 32u);
  return static_cast<uint32_t>(left ? (value << shift) >> 32 : value >> shift);
}

void addWords(HandlerTable &table) {
  using U = uint32_t;
  table.add<U, U, U, U>("prmt.b32", [](Warp &w, const Instr &i) {
    map3<U, U, U, U>(w, i, permute);
  });
  table.add<U, U, U, U, U>("lop3.b32", [](Warp &w, const Instr &i) {
    U code = *w.at<U>(w.block->program->lists[i.target][0]);
    map3<U, U, U, U>(w, i,
                     [=](U a, U b, U c) { return lookup3(a, b, c, code); });
  });
#define FUNNEL(name, left, wrap)                                               \
  table.add<U, U, U, U>(name, [](Warp &w, const Instr &i) {                    \
    map3<U, U, U, U>(                                                          \
        w, i, [](U a, U b, U c) { return funnel(left, wrap, a, b, c); });      \
  })
  FUNNEL("shf.l.wrap.b32", true, true);
  FUNNEL("shf.l.clamp.b32", true, false);
  FUNNEL("shf.r.wrap.b32", false, true);
  FUNNEL("shf.r.clamp.b32", false, false);
}

#define PREDICATES(name, expression)                                           \
  table.add<Pred, Pred, Pred>(name, [](Warp &w, const Instr &i) {              \
    uint32_t a = w.predicate(i.a), b = w.predicate(i.b);                       \
    w.setPredicate(i.d, expression);                                           \
  })

void addPredicates(HandlerTable &table) {
  PREDICATES("and.pred", a & b);
  PREDICATES("or.pred", a | b);
  PREDICATES("xor.pred", a ^ b);
  table.add<Pred, Pred>("not.pred", [](Warp &w, const Instr &i) {
    w.setPredicate(i.d, ~w.predicate(i.a));
  });
  table.add<Pred, Pred>("mov.pred", [](Warp &w, const Instr &i) {
    w.setPredicate(i.d, w.predicate(i.a));
  });
}

} // namespace

void shardonnx::emulator::addBitHandlers(HandlerTable &table) {
  addLogic<uint16_t>(table);
  addLogic<uint32_t>(table);
  addLogic<uint64_t>(table);
  addShiftRight<int16_t>(table);
  addShiftRight<uint16_t>(table);
  addShiftRight<int32_t>(table);
  addShiftRight<uint32_t>(table);
  addShiftRight<int64_t>(table);
  addShiftRight<uint64_t>(table);
  addCounts<uint32_t>(table);
  addCounts<uint64_t>(table);
  addFields<int32_t>(table);
  addFields<uint32_t>(table);
  addFields<int64_t>(table);
  addFields<uint64_t>(table);
  addInsert<uint32_t>(table);
  addInsert<uint64_t>(table);
  addWords(table);
  addPredicates(table);
}
