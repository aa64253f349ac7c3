// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_copy and shx_zero. The dims of a copy are put in the order of the
// destination and merged where both sides allow; what is left is a copy of
// units as large as possible, a transposition in tiles, a conversion of packs,
// or a walk over elements (kernels/Copy.cu).

#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "../plan/WorkspacePlan.h"
#include <algorithm>
#include <vector>

namespace shardonnx::rt::cuda {
namespace {

// From the innermost on.
struct CopyDim {
  int64_t size, src, dst;
};
using CopyDims = std::vector<CopyDim>;

CopyDims dimsOf(const ShxCopy &d) {
  CopyDims dims;
  for (int32_t i = d.rank - 1; i >= 0; --i)
    if (d.dims[i] != 1)
      dims.push_back({d.dims[i], d.srcStride[i], d.dstStride[i]});
  std::stable_sort(
      dims.begin(), dims.end(),
      [](const CopyDim &a, const CopyDim &b) { return a.dst < b.dst; });
  CopyDims merged;
  for (const CopyDim &outer : dims) {
    CopyDim *inner = merged.empty() ? nullptr : &merged.back();
    if (inner && outer.src == inner->src * inner->size &&
        outer.dst == inner->dst * inner->size)
      inner->size *= outer.size;
    else
      merged.push_back(outer);
  }
  if (merged.empty())
    merged.push_back({1, 1, 1});
  return merged;
}

int64_t countOf(const CopyDims &dims) {
  int64_t count = 1;
  for (const CopyDim &dim : dims)
    count *= dim.size;
  return count;
}

// For dividends below 2^31: Granlund and Montgomery, figure 4.1.
Divisor divisorOf(int64_t value) {
  uint32_t shift = 0;
  while ((int64_t(1) << shift) < value)
    ++shift;
  uint64_t factor =
      ((uint64_t(1) << 32) * ((uint64_t(1) << shift) - uint64_t(value))) /
          uint64_t(value) +
      1;
  return {uint32_t(value), uint32_t(factor), shift};
}

bool isFloat(int32_t dtype) { return dtype <= SHX_F16; }

class StridedCopy {
public:
  StridedCopy(Context &context, const ShxCopy &desc, const void *src, void *dst)
      : context(context), d(desc), src(static_cast<const uint8_t *>(src)),
        dst(static_cast<uint8_t *>(dst)),
        raw(desc.srcDtype == desc.dstDtype && !desc.accumulate) {}

  void run() {
    CopyDims dims = dimsOf(d);
    if (countOf(dims) == 0)
      return;
    const CopyDim &inner = dims.front();
    size_t crossing = crossingDim(dims);
    if (raw && crossing < dims.size())
      return transpose(std::move(dims), crossing);
    if (raw)
      return copyUnits(std::move(dims));
    bool packs = isFloat(d.srcDtype) && isFloat(d.dstDtype) && inner.src == 1 &&
                 inner.dst == 1 && divides(dims, 8) && aligned16(src, dst);
    enqueue(packs ? "shx_k_copy_packs" : "shx_k_copy_elements",
            packs ? inUnits(std::move(dims), 8) : std::move(dims),
            bytesOf(d.srcDtype), bytesOf(d.dstDtype));
  }

private:
  // Whether the innermost size and all other strides are multiples.
  static bool divides(const CopyDims &dims, int64_t unit) {
    bool result = dims.front().size % unit == 0;
    for (size_t i = 1; i < dims.size(); ++i)
      result = result && dims[i].src % unit == 0 && dims[i].dst % unit == 0;
    return result;
  }

  // The innermost dim in units; strides stay elements of `unit`'s parts.
  static CopyDims inUnits(CopyDims dims, int64_t unit) {
    dims.front() = {dims.front().size / unit, unit, unit};
    return dims;
  }

  void copyUnits(CopyDims dims) {
    static constexpr const char *names[] = {"shx_k_copy_1", "shx_k_copy_2",
                                            "shx_k_copy_4", "shx_k_copy_8",
                                            "shx_k_copy_16"};
    int64_t element = bytesOf(d.srcDtype), unit = element;
    bool runs = dims.front().src == 1 && dims.front().dst == 1;
    auto fits = [&](int64_t bytes) {
      auto at =
          reinterpret_cast<uintptr_t>(src) | reinterpret_cast<uintptr_t>(dst);
      return at % uintptr_t(bytes) == 0 && divides(dims, bytes / element);
    };
    while (runs && unit < 16 && fits(unit * 2))
      unit *= 2;
    int64_t elements = unit / element;
    if (elements > 1) {
      dims.front().size /= elements;
      for (size_t i = 1; i < dims.size(); ++i) {
        dims[i].src /= elements;
        dims[i].dst /= elements;
      }
    }
    int level = 0;
    while ((1 << level) < unit)
      ++level;
    enqueue(names[level], std::move(dims), unit, unit);
  }

  CopyShape shapeOf(const CopyDims &dims) const {
    CopyShape shape{};
    shape.rank = int32_t(dims.size());
    shape.srcDtype = d.srcDtype;
    shape.dstDtype = d.dstDtype;
    shape.accumulate = d.accumulate;
    for (size_t i = 0; i < dims.size(); ++i) {
      shape.dims[i] = divisorOf(dims[i].size);
      shape.srcStride[i] = dims[i].src;
      shape.dstStride[i] = dims[i].dst;
    }
    return shape;
  }

  // Kernels count units in 31 bits: a larger copy is cut along its outermost
  // dim. Strides are of srcBytes and dstBytes each.
  void enqueue(const char *kernel, CopyDims dims, int64_t srcBytes,
               int64_t dstBytes) {
    constexpr int64_t kMost = INT32_MAX;
    CopyDim outer = dims.back();
    int64_t inner = countOf(dims) / outer.size;
    int64_t step = std::max<int64_t>(1, std::min(outer.size, kMost / inner));
    for (int64_t at = 0; at < outer.size; at += step) {
      dims.back().size = std::min(step, outer.size - at);
      int64_t count = inner * dims.back().size;
      const void *from = src + at * outer.src * srcBytes;
      void *to = dst + at * outer.dst * dstBytes;
      launch(context, kernel, blocksFor(count, kCopyThreads * kCopyEach),
             kCopyThreads, 0, shapeOf(dims), from, to, count);
    }
  }

  // The dim along which the source is contiguous when the destination is so
  // along the innermost; dims.size() when the copy is no transposition.
  size_t crossingDim(const CopyDims &dims) const {
    const CopyDim &inner = dims.front();
    int64_t bytes = bytesOf(d.srcDtype);
    if ((bytes != 2 && bytes != 4) || inner.dst != 1 || inner.src == 1 ||
        inner.size < 8)
      return dims.size();
    size_t at = 1;
    while (at < dims.size() && (dims[at].src != 1 || dims[at].size < 8))
      ++at;
    return at;
  }

  void transpose(CopyDims dims, size_t crossing) {
    CopyDim wide = dims.front(), tall = dims[crossing];
    dims.erase(dims.begin() + long(crossing));
    dims.erase(dims.begin());
    if (dims.empty())
      dims.push_back({1, 0, 0});
    TransposeShape shape{};
    shape.outer = shapeOf(dims);
    shape.wide = wide.size;
    shape.tall = tall.size;
    shape.wideStride = wide.src;
    shape.tallStride = tall.dst;
    int64_t vector = 16 / bytesOf(d.srcDtype);
    shape.vectors =
        aligned16(src, dst) && wide.src % vector == 0 && tall.dst % vector == 0;
    for (const CopyDim &dim : dims)
      shape.vectors =
          shape.vectors && dim.src % vector == 0 && dim.dst % vector == 0;
    int64_t tilesWide = blocksFor(wide.size, kTransposeTile);
    int64_t tilesTall = blocksFor(tall.size, kTransposeTile);
    shape.tilesWide = divisorOf(tilesWide);
    shape.tilesTall = divisorOf(tilesTall);
    const void *from = src;
    void *to = dst;
    launch(context,
           bytesOf(d.srcDtype) == 2 ? "shx_k_transpose_2" : "shx_k_transpose_4",
           tilesWide * tilesTall * countOf(dims), kCopyThreads, 0, shape, from,
           to);
  }

  Context &context;
  const ShxCopy &d;
  const uint8_t *src;
  uint8_t *dst;
  const bool raw;
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" {

void shx_copy(ShxContext *ctx, const ShxCopy *desc, const void *src,
              void *dst) {
  StridedCopy(contextOf(ctx), *desc, src, dst).run();
}

void shx_zero(ShxContext *ctx, void *dst, int64_t bytes) {
  Context &context = contextOf(ctx);
  if (context.preparing() || bytes == 0)
    return;
  CUdeviceptr to = deviceAddress(dst);
  auto count = static_cast<size_t>(bytes);
  CUresult result =
      to % 4 == 0 && count % 4 == 0
          ? driver().cuMemsetD32Async(to, 0, count / 4, context.compute)
          : driver().cuMemsetD8Async(to, 0, count, context.compute);
  check(result, "filling ", bytes, " bytes with zero");
}

} // extern "C"
