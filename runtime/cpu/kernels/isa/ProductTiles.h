// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMX's tile registers as products use them: 2 × 2 tiles of C, two of A below
// each other, two of B side by side. Where the file is not compiled for AMX the
// instruction is computed in plain code, by which tests run everything around
// it on any CPU.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILES_H
#define SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILES_H

#include "Convert.h"

namespace shardonnx::rt::SHX_ISA {

#if defined(__AMX_BF16__)

/// The registers of this thread, as long as it lives.
class Tiles {
public:
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1, startRow = 0, reserved[14] = {};
      uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shapes;
    _tile_loadconfig(&shapes);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles &) = delete;
  Tiles &operator=(const Tiles &) = delete;

  void clear() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  /// Rows of A, and pairs of rows of B, lie so many bytes apart.
  void multiply(const char *a, int64_t aStride, const char *b,
                int64_t bStride) {
    _tile_loadd(4, a, aStride);
    _tile_loadd(6, b, bStride);
    _tile_loadd(7, b + 64, bStride);
    _tile_loadd(5, a + 16 * aStride, aStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  void store(float *c, int64_t stride) {
    char *to = reinterpret_cast<char *>(c);
    _tile_stored(0, to, stride);
    _tile_stored(1, to + 64, stride);
    _tile_stored(2, to + 16 * stride, stride);
    _tile_stored(3, to + 16 * stride + 64, stride);
  }
};

#else

class Tiles {
public:
  void clear() { __builtin_memset(sums, 0, sizeof(sums)); }
  void multiply(const char *a, int64_t aStride, const char *b,
                int64_t bStride) {
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t pair = 0; pair < 16; ++pair)
        for (int64_t column = 0; column < 32; ++column)
          for (int64_t i = 0; i < 2; ++i)
            sums[row][column] += element(a + row * aStride, pair * 2 + i) *
                                 element(b + pair * bStride, column * 2 + i);
  }
  void store(float *c, int64_t stride) {
    for (int64_t row = 0; row < 32; ++row)
      __builtin_memcpy(reinterpret_cast<char *>(c) + row * stride, sums[row],
                       sizeof(sums[row]));
  }

private:
  static float element(const char *row, int64_t index) {
    uint16_t bits;
    __builtin_memcpy(&bits, row + index * 2, 2);
    return bitsToFloat(uint32_t(bits) << 16);
  }
  float sums[32][32];
};

#endif

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILES_H
