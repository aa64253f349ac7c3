// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the inner loops of products multiply and add. Operands come in units of
// 32 bits: one f32, or two bf16 that follow each other in depth.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_MULTIPLY_H
#define SHARDONNX_RUNTIME_CPU_ISA_MULTIPLY_H

#include "Convert.h"

namespace shardonnx::rt::SHX_ISA {

struct FusedMultiplyAdd {
  static constexpr int64_t kDepth = 1; // elements of a unit
  SHX_INLINE Vec broadcast(const float *unit) { return splat(*unit); }
  SHX_INLINE Vec step(Vec sum, Vec element, Vec row) {
    return sum + element * row;
  }
};

/// Each lane adds the products of two pairs of bf16 to a sum in f32. Without
/// the instruction it is computed in plain code, by which tests run everything
/// around it on any CPU.
struct DotOfPairs {
  static constexpr int64_t kDepth = 2;
  /// Where rows lie, pairs are at addresses of bf16.
  SHX_INLINE Vec broadcast(const float *unit) {
    int32_t bits;
    __builtin_memcpy(&bits, unit, sizeof(bits));
    return (Vec)splatInt(bits);
  }
  SHX_INLINE Vec step(Vec sum, Vec element, Vec row) {
#if defined(__AVX512BF16__)
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)element, (__m512bh)row);
#else
    auto later = [](Vec units) {
      return (Vec)((VecI)units & splatInt(int32_t(0xffff0000)));
    };
    auto earlier = [](Vec units) { return (Vec)((VecI)units << 16); };
    sum += later(element) * later(row);
    return sum + earlier(element) * earlier(row);
#endif
  }
};

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_MULTIPLY_H
