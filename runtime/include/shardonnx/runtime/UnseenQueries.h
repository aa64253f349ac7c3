// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which attention has queries that are computed by definition, behind the
// kernels of either device: what masks hide by numbers has finite scores.

#ifndef SHARDONNX_RUNTIME_UNSEENQUERIES_H
#define SHARDONNX_RUNTIME_UNSEENQUERIES_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

/// Whether a query may see no key and yet have finite scores. Static because
/// files of several instruction sets include it (cpu/kernels/isa/Simd.h).
static constexpr bool mayBeUnseen(const ShxAttention &desc, const void *mask) {
  return desc.hidden != 0 || (mask && desc.maskDtype == SHX_F32);
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_UNSEENQUERIES_H
