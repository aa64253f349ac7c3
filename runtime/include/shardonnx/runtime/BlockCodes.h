// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer's state in eight bits: a code for each element and for each
// block of kStateBlock elements an f32, the largest magnitude (Dettmers et al.
// 2022, 8-bit Optimizers via Block-wise Quantization). A code stands for an
// entry of bitsandbytes' dynamic map (create_dynamic_map of its functional.py,
// with and without signs): an element is its block's scale times that entry,
// and is encoded as the nearest one. A stored code is the entry's place in the
// sorted map less 128.
//
// The map has seven decades, decade i (from 0) with `cells`·2^i entries in the
// middle of equal cells between 0.1 and 1 times 10^(i-6), and 0 and 1. Each
// decade's cells are five times as wide as those of the one below, so entry q
// (counted by magnitude; `zero` is nothing) is a maximum of straight lines at
// q + 1/2, and what is nearest to x the floor of a minimum of lines at x:
// arithmetic that vectors do without looking anything up.

#ifndef SHARDONNX_RUNTIME_BLOCKCODES_H
#define SHARDONNX_RUNTIME_BLOCKCODES_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardonnx {

struct BlockCodes {
  struct Line {
    float slope = 0, offset = 0;
    float at(float x) const { return x * slope + offset; }
  };
  static constexpr int kDecades = 7;
  static constexpr int kEncoders = 2 * kDecades;
  static constexpr int kCodeBias = 128;

  bool hasSigns;
  int cells; // of the first decade
  int zero;  // the magnitude's number that stands for 0
  int one;   // …for 1
  float top; // what is nearest to 1 begins here
  Line decode[kDecades] = {};
  Line encode[kEncoders] = {};

  constexpr explicit BlockCodes(bool hasSigns)
      : hasSigns(hasSigns), cells(hasSigns ? 1 : 2), zero(cells - 1),
        one(cells << kDecades), top(0) {
    double unit = 1e-6, width = 0, first = unit * (0.1 + 0.45 / cells);
    // Half of the smallest entry; the slope keeps the line off its neighbours.
    encode[0] = through(first / 2, cells, 3 / unit);
    for (int i = 0; i < kDecades; ++i, unit *= 10) {
      width = 0.9 * unit / (cells << i);
      decode[i] = {static_cast<float>(width), static_cast<float>(-0.8 * unit)};
      encode[1 + i] = through(0.1 * unit, cells << i, 1 / width);
      // Between the last entry of a decade and the first of the next.
      if (i + 1 < kDecades)
        encode[1 + kDecades + i] =
            through(unit + width, cells << (i + 1), 1 / (3 * width));
    }
    top = static_cast<float>(1 - width / 4);
  }

  /// What a magnitude's number stands for.
  float valueOf(int number) const {
    float value = 0;
    for (const Line &line : decode)
      value = std::max(value, line.at(static_cast<float>(number) + 0.5f));
    return std::min(value, 1.0f);
  }
  /// The nearest magnitude's number of 0 ≤ x ≤ 1.
  int numberOf(float x) const {
    if (x >= top)
      return one;
    float least = static_cast<float>(one);
    for (const Line &line : encode)
      least = std::min(least, line.at(x));
    return static_cast<int>(std::floor(least));
  }

  float valueOfCode(int8_t code) const {
    int place = code + kCodeBias;
    if (!hasSigns)
      return valueOf(place + zero);
    int number = place - (one - 1);
    return number < 0 ? -valueOf(-number) : valueOf(number);
  }
  /// As bitsandbytes: -1 is no entry, and what is negative stays so.
  int8_t codeOf(float x) const {
    int place = numberOf(std::fabs(x)) - zero;
    if (hasSigns)
      place = (x < 0 ? -std::clamp(place, 1, one - 1) : place) + one - 1;
    return static_cast<int8_t>(place - kCodeBias);
  }

private:
  static constexpr Line through(double x, double y, double slope) {
    return {static_cast<float>(slope), static_cast<float>(y - x * slope)};
  }
};

/// Of the first moment, and of the second, which has no signs.
constexpr BlockCodes kSignedCodes(true), kUnsignedCodes(false);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_BLOCKCODES_H
