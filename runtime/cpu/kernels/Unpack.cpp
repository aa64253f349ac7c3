// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_unpack: a packed weight decoded in parts, one a thread.

#include "shardonnx/runtime/Unpack.h"
#include "Kernels.h"
#include "Pool.h"

using namespace shardonnx;
using namespace shardonnx::rt;

// Decoded at a time, so that f32 of them stay in the nearest cache; whole
// blocks and whole bytes.
static constexpr int64_t kDecoded = 16 * kPackedBlock;

void shx_unpack(ShxContext *ctx, const ShxUnpack *desc, const void *packed,
                void *to) {
  TraceScope scope(ctx, "unpack");
  Unpacker unpacker(static_cast<Packing>(desc->packing), desc->rows,
                    desc->columns, packed);
  int64_t width = desc->dtype == SHX_F32 ? 4 : 2;
  parallelRange(
      desc->rows * desc->columns, kDecoded, [&](int64_t begin, int64_t end) {
        alignas(64) float values[kDecoded];
        for (int64_t at = begin; at < end; at += kDecoded) {
          int64_t n = std::min(kDecoded, end - at);
          uint8_t *out = static_cast<uint8_t *>(to) + at * width;
          if (desc->dtype == SHX_F32) {
            unpacker.decode(at, at + n, reinterpret_cast<float *>(out));
            continue;
          }
          unpacker.decode(at, at + n, values);
          kernels().narrow(desc->dtype, values, out, n);
        }
      });
}
