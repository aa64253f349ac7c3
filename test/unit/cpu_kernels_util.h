// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers of any dtype between guard bytes, random numbers, and comparison:
// what the tests of the CPU kernels share. Conversions here are arithmetic on
// doubles, so that they share nothing with the ones under test.

#ifndef SHARDONNX_TEST_UNIT_CPU_KERNELS_UTIL_H
#define SHARDONNX_TEST_UNIT_CPU_KERNELS_UTIL_H

#include "../../runtime/cpu/kernels/Kernels.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace shardonnx::rt::wide {
extern const Kernels kernelTable;
}
namespace shardonnx::rt::tiles { // instructions for bf16 in plain code
extern const AttentionKernels attentionKernels;
extern const ProductKernels bf16Product; // AMX's
} // namespace shardonnx::rt::tiles

namespace shardonnx::test {

// Nearest value with `mantissa` explicit bits and least exponent `low`, ties
// to even.
inline double roundTo(double value, int mantissa, int low) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), low);
  double unit = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(value / unit) * unit;
}

inline double roundToDtype(int32_t dtype, double value) {
  switch (dtype) {
  case SHX_BF16:
    return roundTo(value, 7, -126);
  case SHX_F16:
    return roundTo(value, 10, -14);
  case SHX_F32:
    return double(float(value));
  default:
    return value;
  }
}

// How much the rounding of the dtype may move a result, relative.
inline double precision(int32_t dtype) {
  return dtype == SHX_F32 ? 2e-5 : dtype == SHX_BF16 ? 6e-3 : 8e-4;
}

inline int64_t pick(std::mt19937 &random, std::vector<int64_t> values) {
  return values[random() % values.size()];
}

inline int64_t bytesOf(int32_t dtype) {
  constexpr int64_t bytes[] = {4, 2, 2, 8, 4, 1};
  return bytes[dtype];
}

class Buffer {
public:
  Buffer(int32_t dtype, int64_t count)
      : dtype(dtype), count(count),
        bytes(size_t(2 * kGuard + count * bytesOf(dtype)), kGuardByte) {}

  void *data() { return bytes.data() + kGuard; }
  const void *data() const { return bytes.data() + kGuard; }
  int64_t size() const { return count; }

  double get(int64_t i) const {
    const uint8_t *at = bytes.data() + kGuard + i * bytesOf(dtype);
    switch (dtype) {
    case SHX_F32:
      return read<float>(at);
    case SHX_BF16:
      return half(read<uint16_t>(at), 7, 8);
    case SHX_F16:
      return half(read<uint16_t>(at), 10, 5);
    case SHX_I64:
      return double(read<int64_t>(at));
    case SHX_I32:
      return double(read<int32_t>(at));
    default:
      return double(*at);
    }
  }

  void set(int64_t i, double value) {
    uint8_t *at = bytes.data() + kGuard + i * bytesOf(dtype);
    switch (dtype) {
    case SHX_F32:
      return write(at, float(value));
    case SHX_BF16:
      return write(at, toHalf(value, 7, 8));
    case SHX_F16:
      return write(at, toHalf(value, 10, 5));
    case SHX_I64:
      return write(at, int64_t(value));
    case SHX_I32:
      return write(at, int32_t(value));
    default:
      *at = value != 0;
    }
  }

  void fillRandom(std::mt19937 &random, double scale = 1) {
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < count; ++i)
      set(i, normal(random));
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back(get(i));
    return all;
  }
  void fill(double value) {
    for (int64_t i = 0; i < count; ++i)
      set(i, value);
  }

  bool guardsIntact() const {
    for (int64_t i = 0; i < kGuard; ++i)
      if (bytes[size_t(i)] != kGuardByte ||
          bytes[bytes.size() - 1 - size_t(i)] != kGuardByte)
        return false;
    return true;
  }
  bool operator==(const Buffer &other) const { return bytes == other.bytes; }

  const int32_t dtype;

private:
  static constexpr int64_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0xa5;

  template <typename T> static T read(const uint8_t *at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  template <typename T> static void write(uint8_t *at, T value) {
    std::memcpy(at, &value, sizeof(T));
  }

  static double half(uint16_t bits, int mantissa, int exponentBits) {
    int bias = (1 << (exponentBits - 1)) - 1;
    int exponent = bits >> mantissa & ((1 << exponentBits) - 1);
    int fraction = bits & ((1 << mantissa) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponentBits) - 1)
      return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
      return sign * std::ldexp(fraction, 1 - bias - mantissa);
    return sign *
           std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  }
  static uint16_t toHalf(double value, int mantissa, int exponentBits) {
    int bias = (1 << (exponentBits - 1)) - 1;
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::fabs(roundTo(value, mantissa, 1 - bias));
    if (magnitude == 0)
      return sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - bias)
      return uint16_t(sign | int(std::ldexp(magnitude, bias - 1 + mantissa)));
    int fraction =
        int(std::ldexp(magnitude, mantissa - exponent)) & ((1 << mantissa) - 1);
    return uint16_t(sign | (exponent + bias) << mantissa | fraction);
  }

  int64_t count;
  std::vector<uint8_t> bytes;
};

// Every element within `tolerance` of the reference, relative to the largest
// magnitude in it, taken as 0.1 at least: inputs are of the order of 1.
inline void expectClose(const Buffer &actual,
                        const std::vector<double> &expected, double tolerance,
                        const char *what) {
  ASSERT_EQ(size_t(actual.size()), expected.size()) << what;
  EXPECT_TRUE(actual.guardsIntact()) << what;
  double largest = 0.1;
  for (double value : expected)
    largest = std::max(largest, std::fabs(value));
  for (int64_t i = 0; i < actual.size(); ++i) {
    double error = std::fabs(actual.get(i) - expected[size_t(i)]);
    ASSERT_LE(error, tolerance * largest)
        << what << " at " << i << ": " << actual.get(i) << " instead of "
        << expected[size_t(i)];
  }
}

// Calls body with kernels() being `table`, what it does for bf16 replaced.
template <typename Body>
void withKernels(const char *name, rt::Kernels table,
                 const rt::AttentionKernels *bf16Attention,
                 const rt::ProductKernels *bf16Product, Body body) {
  SCOPED_TRACE(name);
  table.bf16Attention = bf16Attention;
  table.bf16Product = bf16Product;
  rt::overrideKernels(&table);
  body();
  rt::overrideKernels(nullptr);
}

// Every set of inner loops that this CPU can run, with `wide` (AVX-512's tiles
// in AVX2's instructions) where it lacks AVX-512.
template <typename Body> void forEachKernelTable(Body body) {
  withKernels("v3", rt::v3::kernelTable, nullptr, nullptr, body);
  if (rt::hasV4())
    withKernels("v4", rt::v4::kernelTable, nullptr, nullptr, body);
  else
    withKernels("wide", rt::wide::kernelTable, nullptr, nullptr, body);
}

// The same, and every way to multiply bf16: in plain code too, for CPUs that
// lack the instructions.
template <typename Body> void forEachProductTable(Body body) {
  forEachKernelTable(body);
  if (rt::hasBf16())
    withKernels("avx512-bf16", rt::v4::kernelTable, &rt::bf16::attentionKernels,
                &rt::bf16::bf16Product, body);
  withKernels("tiles", rt::v3::kernelTable, &rt::tiles::attentionKernels,
              &rt::tiles::bf16Product, body);
  if (rt::hasAmx())
    withKernels("amx-bf16", rt::v4::kernelTable, &rt::bf16::attentionKernels,
                &rt::amx::bf16Product, body);
}

// A workspace of exactly so many bytes: NaN at first, guard bytes after it.
class Workspace {
public:
  explicit Workspace(int64_t size)
      : size(size), bytes(size_t(size) + 2 * kLine, kGuardByte) {
    std::fill_n(data(), size, 0xff);
  }
  uint8_t *data() {
    uintptr_t at = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (kLine - at % kLine) % kLine;
  }
  bool intact() {
    return std::all_of(data() + size, bytes.data() + bytes.size(),
                       [](uint8_t byte) { return byte == kGuardByte; });
  }

private:
  static constexpr size_t kLine = 64;
  static constexpr uint8_t kGuardByte = 0x5a;
  int64_t size;
  std::vector<uint8_t> bytes;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_CPU_KERNELS_UTIL_H
