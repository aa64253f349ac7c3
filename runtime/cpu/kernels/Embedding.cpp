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
#include "SharedVocabulary.h"
#include <algorithm>
#include <cstring>
#include <vector>

using namespace shardonnx::rt;

namespace {

// The rows of a table that are here, of those that there are.
struct TablePart {
  int64_t first, here, all;

  static TablePart whole(const ShxEmbedding &d) {
    return {0, d.vocab, d.vocab};
  }
  static TablePart at(const ShxEmbeddingPart &d, int64_t place) {
    return {place * d.table.vocab, d.table.vocab, d.words};
  }
  // -1: another rank has it.
  int64_t rowOf(int64_t id) const {
    return id >= first && id < first + here ? id - first : -1;
  }
};

void lookUp(const ShxEmbedding &d, const TablePart &part, const void *table,
            const void *ids, void *out) {
  const Kernels &kernel = kernels();
  bool same = d.tableDtype == d.outDtype;
  OutsideIndex outside;
  int64_t grain = ceilDiv(1 << 13, d.width > 0 ? d.width : 1);
  parallelRange(d.rows, grain, [&](int64_t begin, int64_t end) {
    float *copy = nullptr;
    if (!same)
      copy = static_cast<float *>(threadScratch(scratchLine(d.width) * 4));
    for (int64_t i = begin; i < end; ++i) {
      int64_t id = outside.within(indexAt(d.idDtype, ids, i), part.all);
      if (id < 0)
        continue;
      void *to = floatAt(d.outDtype, out, i * d.ldOut);
      id = part.rowOf(id);
      if (id < 0) {
        std::memset(to, 0, size_t(d.width * floatBytes(d.outDtype)));
        continue;
      }
      const void *from = floatAt(d.tableDtype, table, id * d.width);
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

// Columns of a part start at whole cache lines of any float type.
constexpr int64_t kColumnGrain = 32;

// The forward has checked the ids. -1: another rank's.
int64_t rowAt(const ShxEmbedding &d, const TablePart &part, const void *ids,
              int64_t i) {
  int64_t id = indexAt(d.idDtype, ids, i);
  return part.rowOf(id < 0 ? id + part.all : id);
}

// Columns [begin, end) of an f32 table.
void addRows(const ShxEmbedding &d, const TablePart &part, const void *ids,
             const void *dy, float *dtable, int64_t begin, int64_t end) {
  const Kernels &kernel = kernels();
  int64_t count = end - begin;
  float *copy = nullptr;
  if (d.outDtype != SHX_F32)
    copy = static_cast<float *>(threadScratch(scratchLine(count) * 4));
  for (int64_t i = 0; i < d.rows; ++i) {
    int64_t id = rowAt(d, part, ids, i);
    if (id < 0 || id == d.paddingIdx)
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
void addSortedRows(const ShxEmbedding &d, const TablePart &part,
                   const void *ids, const void *dy, void *dtable,
                   const std::vector<int64_t> &order, int64_t begin,
                   int64_t end) {
  const Kernels &kernel = kernels();
  int64_t count = end - begin, line = scratchLine(count);
  float *sum = static_cast<float *>(threadScratch(2 * line * 4));
  float *row = sum + line;
  for (size_t at = 0; at < order.size();) {
    int64_t id = rowAt(d, part, ids, order[at]);
    void *to = floatAt(d.tableDtype, dtable, id * d.width + begin);
    kernel.widen(d.tableDtype, to, sum, count);
    for (; at < order.size() && rowAt(d, part, ids, order[at]) == id; ++at) {
      kernel.widen(d.outDtype,
                   floatAt(d.outDtype, dy, order[at] * d.ldOut + begin), row,
                   count);
      kernel.add(row, sum, count);
    }
    if (id != d.paddingIdx)
      kernel.narrow(d.tableDtype, sum, to, count);
  }
}

void addToTable(ShxContext *ctx, const ShxEmbedding &d, const TablePart &part,
                const void *ids, const void *dy, void *dtable) {
  if (!d.accumulate)
    shx_zero(ctx, dtable, d.vocab * d.width * floatBytes(d.tableDtype));
  std::vector<int64_t> order; // of the ids whose rows are here
  for (int64_t i = 0; d.tableDtype != SHX_F32 && i < d.rows; ++i)
    if (rowAt(d, part, ids, i) >= 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return rowAt(d, part, ids, a) < rowAt(d, part, ids, b);
  });
  parallelRange(d.width, kColumnGrain, [&](int64_t begin, int64_t end) {
    if (d.tableDtype == SHX_F32)
      addRows(d, part, ids, dy, static_cast<float *>(dtable), begin, end);
    else
      addSortedRows(d, part, ids, dy, dtable, order, begin, end);
  });
}

} // namespace

void shx_embedding(ShxContext *ctx, const ShxEmbedding *desc, const void *table,
                   const void *ids, void *out) {
  TraceScope scope(ctx, "embedding");
  lookUp(*desc, TablePart::whole(*desc), table, ids, out);
}

void shx_embedding_grad(ShxContext *ctx, const ShxEmbedding *desc,
                        const void *ids, const void *dy, void *dtable, void *) {
  TraceScope scope(ctx, "embedding_grad");
  addToTable(ctx, *desc, TablePart::whole(*desc), ids, dy, dtable);
}

namespace shardonnx::rt {

void lookUpPart(const ShxEmbeddingPart &desc, int64_t place, const void *table,
                const void *ids, void *out) {
  lookUp(desc.table, TablePart::at(desc, place), table, ids, out);
}

void addToPart(ShxContext *ctx, const ShxEmbeddingPart &desc, int64_t place,
               const void *ids, const void *dy, void *dtable) {
  addToTable(ctx, desc.table, TablePart::at(desc, place), ids, dy, dtable);
}

} // namespace shardonnx::rt
