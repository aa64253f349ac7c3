// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding lookup and its gradient. The gradient is cut by columns among the
// threads: rows are then added in the order of the ids on every thread, and
// ids that are much more frequent than others do no harm. The ids of a data
// file were checked when it was read; those that the graph computes are here,
// and may count from the end of the table.

#include "AttentionPlan.h"
#include "Matrix.h"
#include "OutsideIndex.h"
#include <algorithm>
#include <numeric>
#include <vector>

using namespace shardonnx::rt;

void shx_embedding(ShxContext *ctx, const ShxEmbedding *desc, const void *table,
                   const void *ids, void *out) {
  TraceScope scope(ctx, "embedding");
  const ShxEmbedding &d = *desc;
  const Kernels &kernel = kernels();
  bool same = d.tableDtype == d.outDtype;
  OutsideIndex outside;
  int64_t grain = ceilDiv(1 << 13, d.width > 0 ? d.width : 1);
  parallelRange(d.rows, grain, [&](int64_t begin, int64_t end) {
    float *copy = nullptr;
    if (!same)
      copy = static_cast<float *>(threadScratch(scratchLine(d.width) * 4));
    for (int64_t i = begin; i < end; ++i) {
      int64_t id = outside.within(indexAt(d.idDtype, ids, i), d.vocab);
      if (id < 0)
        continue;
      const void *from = floatAt(d.tableDtype, table, id * d.width);
      void *to = floatAt(d.outDtype, out, i * d.ldOut);
      if (same) {
        std::copy_n(static_cast<const char *>(from),
                    d.width * floatBytes(d.outDtype), static_cast<char *>(to));
        continue;
      }
      kernel.widen(d.tableDtype, from, copy, d.width);
      kernel.narrow(d.outDtype, copy, to, d.width);
    }
  });
  outside.endProgramIfAny("an embedding");
}

namespace {

// Columns of a part start at whole cache lines of any float type.
constexpr int64_t kColumnGrain = 32;

// The forward has checked the ids.
int64_t rowAt(const ShxEmbedding &d, const void *ids, int64_t i) {
  int64_t id = indexAt(d.idDtype, ids, i);
  return id < 0 ? id + d.vocab : id;
}

// Columns [begin, end) of an f32 table.
void addRows(const ShxEmbedding &d, const void *ids, const void *dy,
             float *dtable, int64_t begin, int64_t end) {
  const Kernels &kernel = kernels();
  int64_t count = end - begin;
  float *copy = nullptr;
  if (d.outDtype != SHX_F32)
    copy = static_cast<float *>(threadScratch(scratchLine(count) * 4));
  for (int64_t i = 0; i < d.rows; ++i) {
    int64_t id = rowAt(d, ids, i);
    if (id == d.paddingIdx)
      continue;
    const void *from = floatAt(d.outDtype, dy, i * d.ldOut + begin);
    if (copy)
      kernel.widen(d.outDtype, from, copy, count);
    kernel.add(copy ? copy : static_cast<const float *>(from),
               dtable + id * d.width + begin, count);
  }
}

// The same for a table of a narrower type: `order` holds the rows sorted by
// id, so that each sum is made in f32 and rounded once.
void addSortedRows(const ShxEmbedding &d, const void *ids, const void *dy,
                   void *dtable, const std::vector<int64_t> &order,
                   int64_t begin, int64_t end) {
  const Kernels &kernel = kernels();
  int64_t count = end - begin, line = scratchLine(count);
  float *sum = static_cast<float *>(threadScratch(2 * line * 4));
  float *row = sum + line;
  for (size_t at = 0; at < order.size();) {
    int64_t id = rowAt(d, ids, order[at]);
    void *to = floatAt(d.tableDtype, dtable, id * d.width + begin);
    kernel.widen(d.tableDtype, to, sum, count);
    for (; at < order.size() && rowAt(d, ids, order[at]) == id; ++at) {
      kernel.widen(d.outDtype,
                   floatAt(d.outDtype, dy, order[at] * d.ldOut + begin), row,
                   count);
      kernel.add(row, sum, count);
    }
    if (id != d.paddingIdx)
      kernel.narrow(d.tableDtype, sum, to, count);
  }
}

} // namespace

void shx_embedding_grad(ShxContext *ctx, const ShxEmbedding *desc,
                        const void *ids, const void *dy, void *dtable, void *) {
  TraceScope scope(ctx, "embedding_grad");
  const ShxEmbedding &d = *desc;
  if (!d.accumulate)
    shx_zero(ctx, dtable, d.vocab * d.width * floatBytes(d.tableDtype));
  std::vector<int64_t> order;
  if (d.tableDtype != SHX_F32) {
    order.resize(size_t(d.rows));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return rowAt(d, ids, a) < rowAt(d, ids, b);
    });
  }
  parallelRange(d.width, kColumnGrain, [&](int64_t begin, int64_t end) {
    if (d.tableDtype == SHX_F32)
      addRows(d, ids, dy, static_cast<float *>(dtable), begin, end);
    else
      addSortedRows(d, ids, dy, dtable, order, begin, end);
  });
}
