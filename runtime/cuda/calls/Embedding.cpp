// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The embedding calls of the ABI: launches of kernels/Embedding.cu and
// kernels/EmbeddingGrad.cu.

#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "../plan/WorkspacePlan.h"

namespace shardonnx::rt::cuda {
namespace {

// Rows that begin at multiples of 16 bytes and consist of whole packs.
bool isPacked(const ShxEmbedding &d, const void *table, const void *rows) {
  return d.width % 8 == 0 && d.ldOut % 8 == 0 && aligned16(table, rows);
}

struct Sorted {
  const uint32_t *keys, *order;
};

TableRows wholeTable(const ShxEmbedding &d) { return {0, d.vocab, d.vocab}; }

TableRows partOfTable(Context &context, const ShxEmbeddingPart &d) {
  int rank = context.collectives->axisRank(static_cast<MeshAxis>(d.axis));
  return {rank * d.table.vocab, d.table.vocab, d.words};
}

// The positions of the ids, sorted by id and then by position.
Sorted sortIds(Context &context, const ShxEmbedding &d, const TableRows &part,
               const void *ids, const EmbeddingGradPlan &plan,
               uint8_t *workspace) {
  auto at = [workspace](int64_t offset) {
    return reinterpret_cast<uint32_t *>(workspace + offset);
  };
  uint32_t *keys[2] = {at(plan.keys[0]), at(plan.keys[1])};
  uint32_t *order[2] = {at(plan.order[0]), at(plan.order[1])};
  uint32_t *counts = at(plan.counts);
  const uint32_t *sorted = nullptr, *from = nullptr;
  int64_t tiles = plan.sortTiles, countsSize = tiles << plan.digitBits;
  for (int32_t pass = 0; pass < plan.passes; ++pass) {
    int32_t shift = pass * plan.digitBits;
    int side = pass % 2;
    launch(context, "shx_k_sort_count", tiles, kSortThreads, 0, ids, sorted,
           counts, d.rows, part, d.idDtype, shift, plan.digitBits);
    launch(context, "shx_k_sort_scan", 1, kScanThreads, 0, counts, countsSize);
    launch(context, "shx_k_sort_scatter", tiles, kSortThreads, 0, ids, sorted,
           from, static_cast<const uint32_t *>(counts), keys[side], order[side],
           d.rows, part, d.idDtype, shift, plan.digitBits);
    sorted = keys[side];
    from = order[side];
  }
  return {sorted, from};
}

void addRows(Context &context, const ShxEmbedding &d, Sorted sorted,
             const void *dy, void *dtable, float *partial) {
  static constexpr auto sums = SHX_KERNEL_PAIR_NAMES("shx_k_embedding_sum");
  static constexpr auto joins = SHX_KERNEL_NAMES("shx_k_embedding_join");
  int64_t slabs = blocksFor(d.width, kSumColumns);
  Dim grid(blocksFor(d.rows, kSumTile), blocksFor(slabs, kSumThreads / 32));
  int32_t packed = isPacked(d, dtable, dy);
  launch(context, sums(d.tableDtype, d.outDtype), grid, kSumThreads, 0,
         sorted.keys, sorted.order, dy, partial, dtable, d.paddingIdx, d.vocab,
         d.rows, d.width, d.ldOut, d.accumulate, packed);
  launch(context, joins(d.tableDtype), grid, kSumThreads, 0, sorted.keys,
         partial, dtable, d.paddingIdx, d.vocab, d.rows, d.width, d.accumulate,
         packed);
}

void lookUp(Context &context, const ShxEmbedding &d, const TableRows &part,
            const void *table, const void *ids, void *out) {
  static constexpr auto names = SHX_KERNEL_PAIR_NAMES("shx_k_embedding");
  int32_t packed = isPacked(d, table, out);
  launch(context, names(d.tableDtype, d.outDtype),
         blocksFor(d.rows, kEmbeddingThreads / 32), kEmbeddingThreads, 0, table,
         ids, out, context.cells.outside, d.rows, part, d.width, d.ldOut,
         d.idDtype, packed);
}

void addToTable(Context &context, const ShxEmbedding &d, const TableRows &part,
                const EmbeddingGradPlan &plan, const void *ids, const void *dy,
                void *dtable, void *workspace) {
  if (!d.accumulate)
    shx_zero(&context, dtable, d.vocab * d.width * bytesOf(d.tableDtype));
  auto *base = static_cast<uint8_t *>(workspace);
  Sorted sorted = sortIds(context, d, part, ids, plan, base);
  addRows(context, d, sorted, dy, dtable,
          reinterpret_cast<float *>(base + plan.partial));
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" {

void shx_embedding(ShxContext *ctx, const ShxEmbedding *desc, const void *table,
                   const void *ids, void *out) {
  lookUp(contextOf(ctx), *desc, wholeTable(*desc), table, ids, out);
}

void shx_embedding_grad(ShxContext *ctx, const ShxEmbedding *desc,
                        const void *ids, const void *dy, void *dtable,
                        void *workspace) {
  addToTable(contextOf(ctx), *desc, wholeTable(*desc), planEmbeddingGrad(*desc),
             ids, dy, dtable, workspace);
}

void shx_embedding_part(ShxContext *ctx, const ShxEmbeddingPart *desc,
                        const void *table, const void *ids, void *out) {
  Context &context = contextOf(ctx);
  lookUp(context, desc->table, partOfTable(context, *desc), table, ids, out);
}

void shx_embedding_part_grad(ShxContext *ctx, const ShxEmbeddingPart *desc,
                             const void *ids, const void *dy, void *dtable,
                             void *workspace) {
  Context &context = contextOf(ctx);
  ShxEmbedding withOthers = desc->table;
  ++withOthers.vocab;
  addToTable(context, desc->table, partOfTable(context, *desc),
             planEmbeddingGrad(withOthers), ids, dy, dtable, workspace);
}

} // extern "C"
