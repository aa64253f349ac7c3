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

// Whether nothing of a unit's weights stays in the memory of a CPU's ranks.
// Where the masters are what all ranks read, they stay.
constexpr bool keepsInFile(bool sendsMasters, Offload offload) {
  return offload == Offload::Params && !sendsMasters;
}

// Elements of a part that crosses to a GPU, and how many parts are under way at
// once: large enough that a transfer runs at the link's speed.
constexpr int64_t kOffloadElements = int64_t(1) << 21;
constexpr int64_t kOffloadParts = 3;
// Elements of a part of a CPU's file: a part is memory that comes and goes, of
// which small programs notice megabytes.
constexpr int64_t kFilePartElements = int64_t(1) << 18;
// Of a slice that a gather reads: an element has at most the bytes of a f32.
constexpr int64_t kFilePartBytes = kFilePartElements * 4;

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_OFFLOAD_H
