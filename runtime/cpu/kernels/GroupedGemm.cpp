// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_group_rows sorts rows by the matrix that they choose; in shx_grouped_gemm
// each thread gathers some rows of a group and multiplies them with some
// columns of its matrix.

#include "Matrix.h"
#include "OutsideIndex.h"
#include "Product.h"
#include "shardonnx/runtime/GroupedPlan.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace shardonnx::rt {
namespace {

// What shx_group_rows has written.
struct Groups {
  Groups(const ShxGroupedGemm &d, const int32_t *routes)
      : begins(routes), order(routes + d.groups + 1) {}
  const int32_t *begins, *order;
};

// Columns [first, first + count) of some rows, dense.
void gatherRows(int32_t dtype, const void *from, int64_t stride,
                const int32_t *rows, int64_t rowCount, int64_t first,
                int64_t count, void *to) {
  for (int64_t i = 0; i < rowCount; ++i)
    std::memcpy(floatAt(dtype, to, i * count),
                floatAt(dtype, from, rows[i] * stride + first),
                size_t(count * floatBytes(dtype)));
}

class RowProduct {
public:
  RowProduct(const ShxGroupedGemm &desc, const int32_t *routes, const void *a,
             const void *matrices, void *out)
      : d(desc), groups(desc, routes), at(groupedScratch(desc, false)), a(a),
        matrices(matrices), out(out) {
    for (int64_t g = 0; g < d.groups; ++g)
      for (int64_t i = begin(g); i < begin(g + 1); i += kGroupedRows)
        chunks.push_back({g, i, std::min(i + kGroupedRows, begin(g + 1))});
    blocks = ceilDiv(d.width, kGroupedColumns);
  }

  void run() const {
    parallelTasks(static_cast<int64_t>(chunks.size()) * blocks,
                  [&](int64_t task) {
                    visit(chunks[static_cast<size_t>(task / blocks)],
                          task % blocks * kGroupedColumns);
                  });
  }

private:
  struct Chunk {
    int64_t group, begin, end;
  };
  static int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }
  int64_t begin(int64_t group) const { return groups.begins[group]; }

  void visit(const Chunk &chunk, int64_t first) const {
    char *scratch = static_cast<char *>(threadScratch(at.bytes));
    float *result = reinterpret_cast<float *>(scratch + at.c);
    int64_t rows = chunk.end - chunk.begin;
    int64_t columns = std::min(kGroupedColumns, d.width - first);
    const int32_t *order = groups.order + chunk.begin;
    gatherRows(d.dtypeA, a, d.lda, order, rows, 0, d.depth, scratch + at.a);
    int64_t stride = d.transposed ? d.depth : d.width;
    int64_t from = chunk.group * d.depth * d.width +
                   (d.transposed ? first * d.depth : first);
    Product product{};
    product.m = rows;
    product.n = columns;
    product.k = d.depth;
    product.a = leftOperand(d.dtypeA, scratch + at.a, d.depth, false);
    product.b =
        rightOperand(d.dtypeMatrix, floatAt(d.dtypeMatrix, matrices, from),
                     stride, d.transposed != 0);
    product.c = result;
    product.cStride = columns;
    multiply(product, scratch + at.product);
    for (int64_t i = 0; i < rows; ++i)
      kernels().narrow(d.dtypeC, result + i * columns,
                       floatAt(d.dtypeC, out, order[i] * d.ldc + first),
                       columns);
  }

  const ShxGroupedGemm &d;
  const Groups groups;
  const GroupedScratch at;
  const void *a, *matrices;
  void *out;
  std::vector<Chunk> chunks;
  int64_t blocks;
};

// A task owns columns of one group's matrix and adds its rows in order.
class Gradient {
public:
  Gradient(const ShxGroupedGemm &desc, const int32_t *routes, const void *a,
           const void *c, void *matrices)
      : d(desc), groups(desc, routes), at(groupedScratch(desc, true)), a(a),
        c(c), matrices(matrices) {}

  void run() const {
    int64_t blocks = (d.width + kGroupedColumns - 1) / kGroupedColumns;
    parallelTasks(d.groups * blocks, [&](int64_t task) {
      visit(task / blocks, task % blocks * kGroupedColumns);
    });
  }

private:
  void visit(int64_t group, int64_t first) const {
    char *scratch = static_cast<char *>(threadScratch(at.bytes));
    int64_t columns = std::min(kGroupedColumns, d.width - first);
    void *to =
        floatAt(d.dtypeMatrix, matrices, group * d.depth * d.width + first);
    bool direct = d.dtypeMatrix == SHX_F32;
    float *sum = direct ? static_cast<float *>(to)
                        : reinterpret_cast<float *>(scratch + at.sums);
    int64_t stride = direct ? d.width : columns;
    for (int64_t i = 0; i < d.depth; ++i)
      std::fill_n(sum + i * stride, columns, 0.0f);
    int64_t end = groups.begins[group + 1];
    for (int64_t i = groups.begins[group]; i < end; i += kGroupedRows) {
      int64_t rows = std::min(kGroupedRows, end - i);
      const int32_t *order = groups.order + i;
      gatherRows(d.dtypeA, a, d.lda, order, rows, 0, d.depth, scratch + at.a);
      gatherRows(d.dtypeC, c, d.ldc, order, rows, first, columns,
                 scratch + at.c);
      Product product{};
      product.m = d.depth;
      product.n = columns;
      product.k = rows;
      product.a = leftOperand(d.dtypeA, scratch + at.a, d.depth, true);
      product.b = rightOperand(d.dtypeC, scratch + at.c, columns, false);
      product.c = sum;
      product.cStride = stride;
      product.accumulate = true;
      multiply(product, scratch + at.product);
    }
    for (int64_t i = 0; !direct && i < d.depth; ++i)
      kernels().narrow(d.dtypeMatrix, sum + i * columns,
                       floatAt(d.dtypeMatrix, to, i * d.width), columns);
  }

  const ShxGroupedGemm &d;
  const Groups groups;
  const GroupedScratch at;
  const void *a, *c;
  void *matrices;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_group_rows(ShxContext *ctx, const ShxGroupRows *desc,
                    const void *indices, int32_t *routes, const char *what) {
  TraceScope scope(ctx, "group_rows");
  OutsideIndex outside;
  auto *next = static_cast<int32_t *>(threadScratch(groupRowsScratch(*desc)));
  int32_t *groupOf = next + desc->groups;
  std::fill_n(next, desc->groups, 0);
  for (int64_t i = 0; i < desc->rows; ++i) {
    groupOf[i] = static_cast<int32_t>(
        outside.within(indexAt(desc->indexDtype, indices, i), desc->groups));
    if (groupOf[i] >= 0)
      ++next[groupOf[i]];
  }
  outside.endProgramIfAny(what);
  int32_t begin = 0;
  for (int64_t g = 0; g < desc->groups; ++g) {
    routes[g] = begin;
    begin += std::exchange(next[g], begin);
  }
  routes[desc->groups] = begin;
  int32_t *order = routes + desc->groups + 1;
  for (int64_t i = 0; i < desc->rows; ++i)
    order[next[groupOf[i]]++] = static_cast<int32_t>(i);
}

void shx_grouped_gemm(ShxContext *ctx, const ShxGroupedGemm *desc,
                      const void *a, const void *matrices,
                      const int32_t *routes, void *out) {
  TraceScope scope(ctx, "grouped_gemm");
  RowProduct(*desc, routes, a, matrices, out).run();
}

void shx_grouped_gemm_grad(ShxContext *ctx, const ShxGroupedGemm *desc,
                           const void *a, const void *c, const int32_t *routes,
                           void *matrices) {
  TraceScope scope(ctx, "grouped_gemm_grad");
  Gradient(*desc, routes, a, c, matrices).run();
}
