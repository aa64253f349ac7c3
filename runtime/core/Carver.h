// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How owned slices are laid out in one allocation: counted first and then
// placed, by the same code.

#ifndef SHARDONNX_RUNTIME_CARVER_H
#define SHARDONNX_RUNTIME_CARVER_H

#include "shardonnx/runtime/Layout.h"
#include <cstdint>

namespace shardonnx::rt {

/// Hands out parts of one block, each at a multiple of `alignment` bytes from
/// its begin, or, with no block, only counts them.
class Carver {
public:
  Carver(uint8_t *base, int64_t alignment) : base(base), alignment(alignment) {}
  template <typename T> T *take(int64_t count) {
    int64_t begin = used;
    used = alignTo(used + count * static_cast<int64_t>(sizeof(T)), alignment);
    return base && count > 0 ? reinterpret_cast<T *>(base + begin) : nullptr;
  }
  int64_t used = 0;

private:
  uint8_t *base;
  int64_t alignment;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CARVER_H
