// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_top_k: one line after another, each by one thread.

#include "Matrix.h"
#include "shardonnx/runtime/IndexABI.h"

#include <algorithm>

namespace shardonnx::rt {
namespace {

// a before b among the largest: NaN first.
template <typename T> bool larger(T a, T b) {
  if (isNotANumber(a) || isNotANumber(b))
    return !isNotANumber(b);
  return a > b;
}

struct Line {
  int64_t from = 0, value = 0, index = 0;
};

class TopK {
public:
  TopK(const ShxTopK &desc, const void *from, void *values, int64_t *indices)
      : d(desc), from(from), values(values), indices(indices) {}

  void run() const {
    int64_t lines = 1;
    for (int32_t axis = 0; axis < d.rank; ++axis)
      lines *= d.dims[axis];
    int64_t grain =
        std::max<int64_t>(1, (1 << 12) / std::max<int64_t>(d.size, 1));
    parallelRange(lines, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at)
        visit(at);
    });
  }

private:
  void visit(int64_t at) const {
    Line line;
    for (int32_t axis = d.rank - 1; axis >= 0; --axis) {
      int64_t here = at % d.dims[axis];
      at /= d.dims[axis];
      line.from += here * d.fromStride[axis];
      line.value += here * d.valueStride[axis];
      line.index += here * d.indexStride[axis];
    }
    switch (d.dtype) {
    case SHX_F32:
      return select<float, float>(line);
    case SHX_I64:
      return select<int64_t, int64_t>(line);
    case SHX_I32:
      return select<int32_t, int32_t>(line);
    case SHX_I1:
      return select<uint8_t, uint8_t>(line);
    default:
      return select<uint16_t, float>(line);
    }
  }

  // Elements are stored as Stored and compared as Compared, which differ for
  // floats of 16 bits alone.
  template <typename Stored, typename Compared> void select(Line line) const {
    const Stored *source = static_cast<const Stored *>(from) + line.from;
    char *scratch =
        static_cast<char *>(threadScratch(d.size * SHX_TOP_K_SCRATCH));
    int64_t *order = reinterpret_cast<int64_t *>(scratch);
    Compared *keys = reinterpret_cast<Compared *>(order + d.size);
    for (int64_t i = 0; i < d.size; ++i) {
      order[i] = i;
      if constexpr (std::is_same_v<Stored, Compared>)
        keys[i] = source[i * d.fromAxisStride];
      else
        kernels().widen(d.dtype, source + i * d.fromAxisStride, keys + i, 1);
    }
    bool smallest = d.smallest, lastFirst = d.lastFirst;
    std::partial_sort(order, order + d.k, order + d.size,
                      [&](int64_t a, int64_t b) {
                        bool before = smallest ? larger(keys[b], keys[a])
                                               : larger(keys[a], keys[b]);
                        bool after = smallest ? larger(keys[a], keys[b])
                                              : larger(keys[b], keys[a]);
                        if (before != after)
                          return before;
                        return lastFirst ? a > b : a < b;
                      });
    for (int64_t i = 0; i < d.k; ++i) {
      static_cast<Stored *>(values)[line.value + i * d.valueAxisStride] =
          source[order[i] * d.fromAxisStride];
      indices[line.index + i * d.indexAxisStride] = order[i];
    }
  }

  const ShxTopK &d;
  const void *from;
  void *values;
  int64_t *indices;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_top_k(ShxContext *ctx, const ShxTopK *desc, const void *from,
               void *values, int64_t *indices) {
  TraceScope scope(ctx, "top_k");
  TopK(*desc, from, values, indices).run();
}
