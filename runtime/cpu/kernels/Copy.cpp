// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_copy: a strided copy with conversion. The dimensions are first put in
// the order of the destination and merged where both sides allow; what is left
// is a copy of runs, a transposition in tiles, or a walk over elements.

#include "AttentionPlan.h"
#include "Matrix.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace shardonnx::rt {
namespace {

constexpr int64_t kCopyGrain = 1 << 14; // elements
constexpr int64_t kCopyTile = 64;       // of a transposition

int64_t elementBytes(int32_t dtype) {
  constexpr int64_t bytes[] = {4, 2, 2, 8, 4, 1};
  return bytes[dtype];
}

bool isHalf(int32_t dtype) { return dtype == SHX_BF16 || dtype == SHX_F16; }

template <int32_t Type> struct Element;
template <> struct Element<SHX_I64> {
  using Stored = int64_t;
};
template <> struct Element<SHX_I32> {
  using Stored = int32_t;
};
template <> struct Element<SHX_I1> {
  using Stored = uint8_t;
};
template <> struct Element<SHX_F32> {
  using Stored = float;
};

// Types of 16 bits go through f32 in blocks, so these four are all.
template <int32_t From, int32_t To>
void convertElements(const void *from, int64_t fromStride, void *to,
                     int64_t toStride, int64_t count, bool accumulate) {
  using Source = typename Element<From>::Stored;
  using Target = typename Element<To>::Stored;
  const Source *source = static_cast<const Source *>(from);
  Target *target = static_cast<Target *>(to);
  for (int64_t i = 0; i < count; ++i) {
    Source value = source[i * fromStride];
    Target &place = target[i * toStride];
    if (To == SHX_I1)
      place = value != Source(0);
    else if (accumulate)
      place += Target(value);
    else
      place = Target(value);
  }
}

using ConvertElements = void (*)(const void *, int64_t, void *, int64_t,
                                 int64_t, bool);

template <int32_t From> ConvertElements convertTo(int32_t to) {
  switch (to) {
  case SHX_I64:
    return convertElements<From, SHX_I64>;
  case SHX_I32:
    return convertElements<From, SHX_I32>;
  case SHX_I1:
    return convertElements<From, SHX_I1>;
  default:
    return convertElements<From, SHX_F32>;
  }
}

ConvertElements converter(int32_t from, int32_t to) {
  switch (from) {
  case SHX_I64:
    return convertTo<SHX_I64>(to);
  case SHX_I32:
    return convertTo<SHX_I32>(to);
  case SHX_I1:
    return convertTo<SHX_I1>(to);
  default:
    return convertTo<SHX_F32>(to);
  }
}

class StridedCopy {
public:
  StridedCopy(const ShxCopy &desc, const void *src, void *dst)
      : srcDtype(desc.srcDtype), dstDtype(desc.dstDtype),
        accumulate(desc.accumulate != 0), src(static_cast<const char *>(src)),
        dst(static_cast<char *>(dst)) {
    for (int32_t i = 0; i < desc.rank; ++i)
      if (desc.dims[i] != 1)
        dims[rank++] = {desc.dims[i], desc.srcStride[i], desc.dstStride[i]};
    sortDims();
    mergeDims();
    joinPairs();
    if (rank == 0)
      dims[rank++] = {1, 1, 1};
  }

  void run() {
    int64_t total = 1;
    for (int i = 0; i < rank; ++i)
      total *= dims[i].size;
    if (total == 0)
      return;
    int crossing = crossingDim();
    if (crossing >= 0)
      return transposeTiles(crossing);
    copyRuns(total);
  }

private:
  struct Dim {
    int64_t size, src, dst;
  };
  struct Offset {
    int64_t src, dst;
  };

  void sortDims() {
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && dims[j - 1].dst < dims[j].dst; --j)
        std::swap(dims[j - 1], dims[j]);
  }

  void mergeDims() {
    int kept = 0;
    for (int i = 0; i < rank; ++i) {
      Dim &outer = dims[kept > 0 ? kept - 1 : 0], inner = dims[i];
      if (kept > 0 && outer.src == inner.src * inner.size &&
          outer.dst == inner.dst * inner.size)
        outer = {outer.size * inner.size, inner.src, inner.dst};
      else
        dims[kept++] = inner;
    }
    rank = kept;
  }

  // Pairs of f32, such as complex numbers, are elements of 64 bits.
  void joinPairs() {
    if (rank < 2 || srcDtype != SHX_F32 || dstDtype != SHX_F32 || accumulate)
      return;
    const Dim &last = dims[rank - 1];
    auto isAligned = [](const char *at) {
      return reinterpret_cast<uintptr_t>(at) % sizeof(int64_t) == 0;
    };
    if (last.size != 2 || last.src != 1 || last.dst != 1 || !isAligned(src) ||
        !isAligned(dst))
      return;
    for (int i = 0; i < rank - 1; ++i)
      if (dims[i].src % 2 != 0 || dims[i].dst % 2 != 0)
        return;
    --rank;
    for (int i = 0; i < rank; ++i)
      dims[i] = {dims[i].size, dims[i].src / 2, dims[i].dst / 2};
    srcDtype = dstDtype = SHX_I64;
  }

  // The dim along which the source is contiguous when the destination is so
  // along the last; -1 when the copy is no transposition of f32 or 64 bits.
  int crossingDim() const {
    const Dim &last = dims[rank - 1];
    bool hasTiles = srcDtype == SHX_F32 || srcDtype == SHX_I64;
    if (!hasTiles || dstDtype != srcDtype || accumulate || last.dst != 1 ||
        last.src == 1 || last.size < 8)
      return -1;
    for (int i = 0; i < rank - 1; ++i)
      if (dims[i].src == 1 && dims[i].size >= 8)
        return i;
    return -1;
  }

  // Where index `at` of the first `count` dims but `skipped` lies.
  Offset locate(int64_t at, int count, int skipped = -1) const {
    Offset offset{0, 0};
    for (int i = count - 1; i >= 0; --i) {
      if (i == skipped)
        continue;
      int64_t here = at % dims[i].size;
      at /= dims[i].size;
      offset.src += here * dims[i].src;
      offset.dst += here * dims[i].dst;
    }
    return offset;
  }

  void transposeTiles(int crossing) {
    const Dim wide = dims[rank - 1], tall = dims[crossing];
    int64_t outer = 1;
    for (int i = 0; i < rank - 1; ++i)
      if (i != crossing)
        outer *= dims[i].size;
    int64_t tilesX = ceilDiv(wide.size, kCopyTile);
    int64_t tilesY = ceilDiv(tall.size, kCopyTile);
    int64_t tiles = outer * tilesY * tilesX;
    int64_t elements = wide.size * tall.size * outer / tiles;
    int64_t grain = ceilDiv(kCopyGrain, elements > 0 ? elements : 1);
    parallelRange(tiles, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        Offset offset = locate(t / (tilesX * tilesY), rank - 1, crossing);
        int64_t x = t % tilesX * kCopyTile;
        int64_t y = t / tilesX % tilesY * kCopyTile;
        int64_t bytes = elementBytes(srcDtype);
        transposeTile(std::min(kCopyTile, wide.size - x),
                      std::min(kCopyTile, tall.size - y),
                      src + (offset.src + x * wide.src + y) * bytes, wide.src,
                      dst + (offset.dst + y * tall.dst + x) * bytes, tall.dst);
      }
    });
  }

  void transposeTile(int64_t rows, int64_t columns, const char *from,
                     int64_t fromStride, char *to, int64_t toStride) const {
    if (srcDtype == SHX_F32)
      return kernels().transpose(
          rows, columns, reinterpret_cast<const float *>(from), fromStride,
          reinterpret_cast<float *>(to), toStride);
    const auto *source = reinterpret_cast<const int64_t *>(from);
    auto *target = reinterpret_cast<int64_t *>(to);
    for (int64_t y = 0; y < columns; ++y)
      for (int64_t x = 0; x < rows; ++x)
        target[y * toStride + x] = source[x * fromStride + y];
  }

  void copyRuns(int64_t total) {
    const Dim last = dims[rank - 1];
    int64_t runs = total / last.size;
    if (runs < omp_get_max_threads() && last.size > kCopyGrain) {
      for (int64_t r = 0; r < runs; ++r)
        parallelRange(last.size, kCopyGrain, [&](int64_t begin, int64_t end) {
          Offset offset = locate(r, rank - 1);
          copyRun(
              {offset.src + begin * last.src, offset.dst + begin * last.dst},
              end - begin);
        });
      return;
    }
    parallelRange(runs, ceilDiv(kCopyGrain, last.size),
                  [&](int64_t begin, int64_t end) { walkRuns(begin, end); });
  }

  // Runs [begin, end): the offsets of neighbours along the innermost outer dim
  // are a stride apart, the others are found anew.
  void walkRuns(int64_t begin, int64_t end) const {
    const Dim last = dims[rank - 1];
    const Dim outer = rank > 1 ? dims[rank - 2] : Dim{1, 0, 0};
    for (int64_t r = begin; r < end;) {
      Offset offset = locate(r, rank - 1);
      int64_t stop = std::min(end, (r / outer.size + 1) * outer.size);
      for (; r < stop; ++r) {
        copyRun(offset, last.size);
        offset.src += outer.src;
        offset.dst += outer.dst;
      }
    }
  }

  void copyRun(Offset offset, int64_t count) const {
    const Dim &last = dims[rank - 1];
    const char *from = src + offset.src * elementBytes(srcDtype);
    char *to = dst + offset.dst * elementBytes(dstDtype);
    bool dense = last.src == 1 && last.dst == 1;
    if (dense && srcDtype == dstDtype && !accumulate)
      std::memcpy(to, from, size_t(count * elementBytes(srcDtype)));
    else if (dense && dstDtype == SHX_F32 && isHalf(srcDtype) && !accumulate)
      kernels().widen(srcDtype, from, reinterpret_cast<float *>(to), count);
    else if (dense && srcDtype == SHX_F32 && isHalf(dstDtype) && !accumulate)
      kernels().narrow(dstDtype, reinterpret_cast<const float *>(from), to,
                       count);
    else if (isHalf(srcDtype) || isHalf(dstDtype))
      convertBlocks(from, last.src, to, last.dst, count);
    else if (dense && srcDtype == SHX_F32 && dstDtype == SHX_F32)
      kernels().add(reinterpret_cast<const float *>(from),
                    reinterpret_cast<float *>(to), count);
    else
      converter(srcDtype, dstDtype)(from, last.src, to, last.dst, count,
                                    accumulate);
  }

  // Through f32, a block at a time, when a side has 16 bits.
  void convertBlocks(const char *from, int64_t fromStride, char *to,
                     int64_t toStride, int64_t count) const {
    constexpr int64_t kBlock = 256;
    float values[kBlock], old[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      int64_t n = std::min(kBlock, count - i);
      const char *source = from + i * fromStride * elementBytes(srcDtype);
      char *target = to + i * toStride * elementBytes(dstDtype);
      readBlock(srcDtype, source, fromStride, n, values);
      if (accumulate) {
        readBlock(dstDtype, target, toStride, n, old);
        kernels().add(old, values, n);
      }
      writeBlock(values, n, target, toStride);
    }
  }

  static void readBlock(int32_t dtype, const char *from, int64_t stride,
                        int64_t count, float *values) {
    uint16_t halves[256];
    if (!isHalf(dtype))
      return converter(dtype, SHX_F32)(from, stride, values, 1, count, false);
    const uint16_t *source = reinterpret_cast<const uint16_t *>(from);
    for (int64_t i = 0; stride != 1 && i < count; ++i)
      halves[i] = source[i * stride];
    kernels().widen(dtype, stride == 1 ? source : halves, values, count);
  }

  void writeBlock(const float *values, int64_t count, char *to,
                  int64_t stride) const {
    uint16_t halves[256];
    if (!isHalf(dstDtype))
      return converter(SHX_F32, dstDtype)(values, 1, to, stride, count, false);
    uint16_t *target = reinterpret_cast<uint16_t *>(to);
    kernels().narrow(dstDtype, values, stride == 1 ? target : halves, count);
    for (int64_t i = 0; stride != 1 && i < count; ++i)
      target[i * stride] = halves[i];
  }

  Dim dims[SHX_MAX_RANK + 1];
  int rank = 0;
  int32_t srcDtype, dstDtype;
  const bool accumulate;
  const char *src;
  char *dst;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_copy(ShxContext *ctx, const ShxCopy *desc, const void *src,
              void *dst) {
  TraceScope scope(ctx, "copy");
  StridedCopy(*desc, src, dst).run();
}
