// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mma.sync and ldmatrix: fragments to small matrices and back.

#include "Access.h"
#include "Handlers.h"
#include "WarpHandlers.h"
#include <cmath>
#include <cuda.h>

using namespace shardonnx::emulator;

namespace {

void checkWhole(Warp &w, const Instr &i, const char *what) {
  if (w.mask != kAllLanes)
    fault(w, i, static_cast<unsigned>(__builtin_ctz(~w.mask)),
          CUDA_ERROR_LAUNCH_FAILED,
          std::string(what) + " without all lanes of the warp");
}

/// The elements of a 32-bit register.
unsigned elementsOf(uint32_t bits, uint8_t type, float *out) {
  switch (type) {
  case MatrixHalf:
    out[0] = toFloat(Half{static_cast<uint16_t>(bits)});
    out[1] = toFloat(Half{static_cast<uint16_t>(bits >> 16)});
    return 2;
  case MatrixBFloat:
    out[0] = toFloat(BFloat{static_cast<uint16_t>(bits)});
    out[1] = toFloat(BFloat{static_cast<uint16_t>(bits >> 16)});
    return 2;
  default: // only the upper 19 bits take part
    out[0] = bitcast<float>(bits & ~0x1fffu);
    return 1;
  }
}

} // namespace

void shardonnx::emulator::multiplyMatrix(Warp &w, const Instr &i) {
  checkWhole(w, i, "mma.sync");
  const uint32_t *refs = w.block->program->lists[i.target].data();
  unsigned k = static_cast<unsigned>(i.imm);
  unsigned per = i.mode == MatrixTensorFloat ? 1 : 2;
  unsigned aRegisters = 16 * k / kLanes / per, bRegisters = aRegisters / 2;
  float a[16][16], b[16][8], c[16][8];
  for (unsigned l = 0; l < kLanes; ++l) {
    unsigned group = l / 4, within = l % 4;
    float values[2];
    for (unsigned r = 0; r < aRegisters; ++r) {
      unsigned count =
          elementsOf(w.at<uint32_t>(refs[4 + r])[l], i.mode, values);
      for (unsigned e = 0; e < count; ++e)
        a[group + 8 * (r & 1)][(within + 4 * (r >> 1)) * per + e] = values[e];
    }
    for (unsigned r = 0; r < bRegisters; ++r) {
      unsigned count = elementsOf(w.at<uint32_t>(refs[4 + aRegisters + r])[l],
                                  i.mode, values);
      for (unsigned e = 0; e < count; ++e)
        b[(within + 4 * r) * per + e][group] = values[e];
    }
    for (unsigned r = 0; r < 4; ++r)
      c[group + 8 * (r >> 1)][within * 2 + (r & 1)] =
          w.at<float>(refs[4 + aRegisters + bRegisters + r])[l];
  }
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned x = 0; x < k; ++x)
      for (unsigned n = 0; n < 8; ++n)
        c[m][n] = std::fma(a[m][x], b[x][n], c[m][n]);
  for (unsigned l = 0; l < kLanes; ++l)
    for (unsigned r = 0; r < 4; ++r)
      w.at<float>(refs[r])[l] = c[l / 4 + 8 * (r >> 1)][l % 4 * 2 + (r & 1)];
}

void shardonnx::emulator::loadMatrices(Warp &w, const Instr &i) {
  checkWhole(w, i, "ldmatrix");
  const std::vector<uint32_t> &to = w.block->program->lists[i.target];
  // Lane j * 8 + r has the address of row r of matrix j.
  uint16_t rows[kLanes][8];
  for (unsigned l = 0; l < to.size() * 8; ++l)
    std::memcpy(
        rows[l],
        resolveLane(w, i, l, Shared, laneAddress(w, i, l), 16, 16, Use::Read),
        16);
  for (unsigned j = 0; j < to.size(); ++j) {
    if (to[j] == kNowhere)
      continue;
    uint32_t *d = w.at<uint32_t>(to[j]);
    for (unsigned l = 0; l < kLanes; ++l) {
      unsigned row = l / 4, column = l % 4 * 2;
      uint32_t low =
          i.mode ? rows[j * 8 + column][row] : rows[j * 8 + row][column];
      uint32_t high = i.mode ? rows[j * 8 + column + 1][row]
                             : rows[j * 8 + row][column + 1];
      d[l] = low | high << 16;
    }
  }
}
