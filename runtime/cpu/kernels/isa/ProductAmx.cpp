// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products of bf16 by AMX: four tiles of C, of 16 rows × 16 columns
// each, stay in registers while steps of 32 elements of depth go by.

#include "ProductPack.h"
#include "ProductTiles.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

constexpr int64_t kTile = 16;         // rows, columns and pairs of a tile
constexpr int64_t kPanel = 2 * kTile; // lines of a panel
constexpr int64_t kStep = 2 * kTile;  // elements of depth

// A's panels are tiles as the instruction wants them: of each step the lines
// one after the other, each with its 32 elements.
template <int32_t DType>
void packLeft(const ProductOperand &from, int64_t lines, int64_t depth,
              char *to, int64_t panelBytes) {
  const char *data = static_cast<const char *>(from.data);
  constexpr int64_t kBytes = DType == SHX_F32 ? 4 : 2;
  int64_t units = roundUp(depth, kStep) / 2, whole = depth / 2;
  for (int64_t line = 0; line < roundUp(lines, kPanel); line += 8)
    for (int64_t unit = 0; unit < units; unit += 8) {
      __m256 square[8]; // of one line, and eight units
      if (line + 8 > lines || unit + 8 > whole) {
        float rest[8][8];
        for (int64_t i = 0; i < 8; ++i)
          for (int64_t u = 0; u < 8; ++u)
            rest[i][u] =
                unitAt<Bf16Units>(from, lines, depth, line + i, unit + u);
        for (int64_t i = 0; i < 8; ++i)
          square[i] = _mm256_loadu_ps(rest[i]);
      } else if (from.depthStride == 1) {
        for (int64_t i = 0; i < 8; ++i)
          square[i] = Bf16Units::alongDepth<DType>(
              data + ((line + i) * from.lineStride + unit * 2) * kBytes);
      } else {
        for (int64_t u = 0; u < 8; ++u) {
          const char *row =
              data + (line + (unit + u) * 2 * from.depthStride) * kBytes;
          square[u] = Bf16Units::alongLines<DType>(row, row + from.depthStride *
                                                                  kBytes);
        }
        transposeSquare(square);
      }
      char *panel =
          to + line / kPanel * panelBytes + unit / kTile * kPanel * 64;
      for (int64_t i = 0; i < 8; ++i)
        _mm256_storeu_ps(
            reinterpret_cast<float *>(panel + (line % kPanel + i) * 64) +
                unit % kTile,
            square[i]);
    }
}

void packA(const ProductOperand &from, int64_t lines, int64_t depth, void *to,
           int64_t panelBytes) {
  if (from.dtype == SHX_F32)
    packLeft<SHX_F32>(from, lines, depth, static_cast<char *>(to), panelBytes);
  else
    packLeft<SHX_BF16>(from, lines, depth, static_cast<char *>(to), panelBytes);
}

// c (+)= the upper left part of a block of sums.
void storeBlock(const float *block, int64_t rows, int64_t columns, float *c,
                int64_t cStride, bool add) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = block[i * kPanel + j];
      c[i * cStride + j] = add ? c[i * cStride + j] + sum : sum;
    }
}

void multiplyTiles(int64_t rows, int64_t columns, int64_t depth, const void *a,
                   int64_t aPanelBytes, const void *b, float *c,
                   int64_t cStride, bool add) {
  Tiles tiles;
  const char *right = static_cast<const char *>(b);
  int64_t steps = (depth + kStep - 1) / kStep;
  for (int64_t row = 0; row < rows; row += kPanel) {
    const char *left =
        static_cast<const char *>(a) + row / kPanel * aPanelBytes;
    tiles.clear();
    for (int64_t s = 0; s < steps; ++s)
      tiles.multiply(left + s * kPanel * 64, 64, right + s * kTile * kPanel * 4,
                     kPanel * 4);
    alignas(64) float block[kPanel * kPanel];
    tiles.store(block, kPanel * 4);
    storeBlock(block, least(kPanel, rows - row), columns, c + row * cStride,
               cStride, add);
  }
}

} // namespace

extern const ProductKernels bf16Product;
const ProductKernels bf16Product = {
    "amx-bf16",    kPanel,  kPanel, kStep,
    512,           2,       packA,  pack<Bf16Units, kPanel, kTile>,
    multiplyTiles, nullptr, kLanes, false,
};

} // namespace shardonnx::rt::SHX_ISA
