// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of a rank's owned slices lies outside of the memory that it trains in:
// of a GPU in pinned host memory, of a CPU in a file. They come in by parts,
// ahead of the optimizer, and go back behind it.

#ifndef SHARDONNX_RUNTIME_OFFLOAD_H
#define SHARDONNX_RUNTIME_OFFLOAD_H

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Spelling.h"

#include <cstdint>

namespace shardonnx {

enum class Offload {
  None,
  Optimizer, // its state
  Params,    // the masters and frozen weights, too
};

template <> struct Spellings<Offload> {
  static constexpr Spelling<Offload> table[] = {
      {Offload::None, "none"},
      {Offload::Optimizer, "optimizer"},
      {Offload::Params, "params"}};
};

// Whether nothing of a unit's weights stays in the memory of a CPU's ranks. In
// f32 the masters are what all ranks read, which stays.
constexpr bool keepsInFile(ShxDType paramType, Offload offload) {
  return offload == Offload::Params && paramType != SHX_F32;
}

// Elements of a part, and how many parts are under way at once.
constexpr int64_t kOffloadElements = int64_t(1) << 21;
constexpr int64_t kOffloadParts = 3;
// Of a slice that a gather reads: an element has at most the bytes of a f32.
constexpr int64_t kOffloadPartBytes = kOffloadElements * 4;

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_OFFLOAD_H
