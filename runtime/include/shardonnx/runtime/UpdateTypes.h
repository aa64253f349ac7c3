// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What master weights are kept in and gathered as, for the compiler and the
// runtime.

#ifndef SHARDONNX_RUNTIME_UPDATETYPES_H
#define SHARDONNX_RUNTIME_UPDATETYPES_H

#include "shardonnx/runtime/Choices.h"

namespace shardonnx {

/// What master weights may be: bf16 ones are rounded at random.
inline std::vector<ShxDType> masterTypes() { return {SHX_F32, SHX_BF16}; }

/// Of a unit whose products read `param`: masters of few bits are what they
/// read, so they are of that type or stay f32. What is read in 8 bits is bf16
/// before.
constexpr ShxDType masterTypeOf(ShxDType asked, ShxDType param) {
  return asked == (param == SHX_F8E4M3 ? SHX_BF16 : param) ? asked : SHX_F32;
}

/// What parameters cross the links as. In 8 bits, kStateBlock elements have
/// one scale, a power of two (GatherCodes.h).
enum class GatherDtype { Param, BF16, Int8, F8 };

template <> struct Spellings<GatherDtype> {
  static constexpr Spelling<GatherDtype> table[] = {
      {GatherDtype::Param, "param", "as products read them"},
      {GatherDtype::BF16, "bf16", "rounded to nearest"},
      {GatherDtype::Int8, "int8", "a scale for each 256 elements"},
      {GatherDtype::F8, "fp8", "e4m3, the same"}};
};

/// Of a unit whose products read `param`: 8 bits are also what is gathered.
constexpr GatherDtype gatherTypeOf(GatherDtype asked, ShxDType param) {
  if (param == SHX_F8E4M3)
    return GatherDtype::F8;
  bool same = asked == GatherDtype::BF16 && param == SHX_BF16;
  return same ? GatherDtype::Param : asked;
}

/// What an update's tensors are asked to be.
struct UpdateTypes {
  ShxDType state = SHX_F32; // the optimizer's
  ShxDType master = SHX_F32;
  GatherDtype gather = GatherDtype::Param;
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_UPDATETYPES_H
