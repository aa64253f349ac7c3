// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_cumsum: neighbouring lines together, each from its begin to its end, so
// that an axis which is not the last is walked in the order of memory.

#include "Kernels.h"
#include "Pool.h"

#include <algorithm>
#include <type_traits>

namespace shardonnx::rt {
namespace {

constexpr int64_t kLines = 64; // summed together

class CumSum {
public:
  CumSum(const ShxCumSum &desc, const void *from, void *to)
      : d(desc), from(from), to(to) {}

  void run() const {
    int64_t lines = 1;
    for (int32_t axis = 0; axis < d.rank; ++axis)
      lines *= d.dims[axis];
    int64_t grain =
        std::max<int64_t>(1, (1 << 12) / std::max<int64_t>(d.size, 1));
    parallelRange(lines, grain, [&](int64_t begin, int64_t end) {
      // Neighbours lie one stride apart.
      int64_t row = d.rank > 0 ? d.dims[d.rank - 1] : 1;
      while (begin < end) {
        int64_t count = std::min({end - begin, row - begin % row, kLines});
        visit(begin, count);
        begin += count;
      }
    });
  }

private:
  void visit(int64_t line, int64_t count) const {
    int64_t fromAt = 0, toAt = 0;
    for (int32_t axis = d.rank - 1; axis >= 0; --axis) {
      int64_t here = line % d.dims[axis];
      line /= d.dims[axis];
      fromAt += here * d.fromStride[axis];
      toAt += here * d.toStride[axis];
    }
    if (d.reverse) {
      fromAt += (d.size - 1) * d.fromAxisStride;
      toAt += (d.size - 1) * d.toAxisStride;
    }
    switch (d.dtype) {
    case SHX_F32:
      return sum<float, double>(fromAt, toAt, count);
    case SHX_I64:
      return sum<int64_t, uint64_t>(fromAt, toAt, count);
    case SHX_I32:
      return sum<int32_t, uint32_t>(fromAt, toAt, count);
    default:
      return sum<uint16_t, double>(fromAt, toAt, count);
    }
  }

  template <typename Stored, typename Sum>
  void sum(int64_t fromAt, int64_t toAt, int64_t count) const {
    int64_t fromNext = d.rank > 0 ? d.fromStride[d.rank - 1] : 0;
    int64_t toNext = d.rank > 0 ? d.toStride[d.rank - 1] : 0;
    int64_t sign = d.reverse ? -1 : 1;
    Sum sums[kLines] = {};
    for (int64_t i = 0; i < d.size; ++i) {
      const Stored *x = static_cast<const Stored *>(from) + fromAt +
                        i * sign * d.fromAxisStride;
      Stored *y = static_cast<Stored *>(to) + toAt + i * sign * d.toAxisStride;
      for (int64_t line = 0; line < count; ++line) {
        Sum before = sums[line];
        sums[line] += widen<Stored, Sum>(x[line * fromNext]);
        y[line * toNext] = narrow<Stored>(d.exclusive ? before : sums[line]);
      }
    }
  }

  // 16 bits are a float of d.dtype.
  template <typename Stored, typename Sum> Sum widen(Stored value) const {
    if constexpr (std::is_same_v<Stored, uint16_t>) {
      float wide = 0;
      kernels().widen(d.dtype, &value, &wide, 1);
      return wide;
    } else {
      return static_cast<Sum>(value);
    }
  }
  template <typename Stored, typename Sum> Stored narrow(Sum value) const {
    if constexpr (std::is_same_v<Stored, uint16_t>) {
      float wide = static_cast<float>(value);
      uint16_t stored = 0;
      kernels().narrow(d.dtype, &wide, &stored, 1);
      return stored;
    } else {
      return static_cast<Stored>(value);
    }
  }

  const ShxCumSum &d;
  const void *from;
  void *to;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_cumsum(ShxContext *ctx, const ShxCumSum *desc, const void *from,
                void *to) {
  TraceScope scope(ctx, "cumsum");
  CumSum(*desc, from, to).run();
}
