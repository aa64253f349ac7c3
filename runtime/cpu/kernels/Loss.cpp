// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of given logits, and of logits that exist only a chunk of rows
// at a time: product, softmax with its gradient in place, two products back.
// Losses are summed in double, in an order that the shapes alone decide.

#include "Matrix.h"
#include "Product.h"
#include "WorkspacePlan.h"
#include "shardonnx/runtime/Workspace.h"
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kRowsPerTask = 8;

class LinearCrossEntropy {
public:
  LinearCrossEntropy(const ShxLinearCrossEntropy &desc, const void *x,
                     const void *w, const void *labels, float seed, void *dx,
                     void *dw, void *workspace)
      : d(desc), plan(planLoss(desc)), x(x), w(w), labels(labels), seed(seed),
        dx(dx), dw(dw), workspace(static_cast<char *>(workspace)) {}

  double run() {
    double loss = 0;
    for (begin = 0; begin < d.rows; begin += d.chunkRows) {
      count = d.rows - begin < d.chunkRows ? d.rows - begin : d.chunkRows;
      makeLogits();
      loss += lossOfRows();
      if (dx)
        makeDx();
      if (dw)
        addDw();
    }
    if (dw && sumsDw)
      storeDw();
    return loss;
  }

private:
  float *floats(int64_t at) const {
    return reinterpret_cast<float *>(workspace + at);
  }

  ProductOperand rows(bool left, bool transposed) const {
    const void *from = floatAt(d.dtypeX, x, begin * d.ldx);
    return left ? leftOperand(d.dtypeX, from, d.ldx, transposed)
                : rightOperand(d.dtypeX, from, d.ldx, transposed);
  }

  // w as [width, vocab], or its transpose.
  ProductOperand weights(bool transposed) const {
    return rightOperand(d.dtypeW, w, d.transW ? d.width : d.vocab,
                        transposed != (d.transW != 0));
  }

  void run(Product &product) const {
    // As the rows and the weights are, so may be the gradient of the logits.
    product.mayRound = d.dtypeX == SHX_BF16 && d.dtypeW == SHX_BF16;
    multiply(product, workspace + plan.product);
  }

  void makeLogits() const {
    Product product{};
    product.m = count;
    product.n = d.vocab;
    product.k = d.width;
    product.a = rows(true, false);
    product.b = weights(false);
    product.c = floats(plan.logits);
    product.cStride = d.vocab;
    run(product);
  }

  double lossOfRows() {
    const Kernels &table = kernels();
    double *losses = reinterpret_cast<double *>(workspace + plan.losses);
    parallelTasks(ceilDiv(count, kRowsPerTask), [&](int64_t task) {
      int64_t end = (task + 1) * kRowsPerTask;
      end = end < count ? end : count;
      for (int64_t i = task * kRowsPerTask; i < end; ++i) {
        float *row = floats(plan.logits) + i * d.vocab;
        float *slope = dx || dw ? row : nullptr;
        int64_t label = indexAt(d.labelDtype, labels, begin + i);
        losses[i] = 0;
        if (label != d.ignoreIndex)
          losses[i] = table.crossEntropyRow(row, d.vocab, label, d.softcap,
                                            seed, slope);
        else if (slope)
          std::memset(slope, 0, size_t(d.vocab) * sizeof(float));
      }
    });
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += losses[i];
    return sum;
  }

  void makeDx() const {
    Product product{};
    product.m = count;
    product.n = d.width;
    product.k = d.vocab;
    product.a = leftOperand(SHX_F32, floats(plan.logits), d.vocab, false);
    product.b = weights(true);
    product.c = floatAt(d.dtypeX, dx, begin * d.lddx);
    product.cStride = d.lddx;
    product.cDtype = d.dtypeX;
    run(product);
  }

  void addDw() const {
    Product product{};
    const float *logits = floats(plan.logits);
    product.m = d.transW ? d.vocab : d.width;
    product.n = d.transW ? d.width : d.vocab;
    product.k = count;
    product.a = d.transW ? leftOperand(SHX_F32, logits, d.vocab, true)
                         : rows(true, true);
    product.b = d.transW ? rows(false, false)
                         : rightOperand(SHX_F32, logits, d.vocab, false);
    product.c = sumsDw ? floats(plan.dw) : dw;
    product.cStride = product.n;
    product.accumulate = begin > 0 || (!sumsDw && d.accumulateDw);
    run(product);
  }

  // The sum of all chunks is rounded once.
  void storeDw() {
    const Kernels &table = kernels();
    int64_t rows = d.transW ? d.vocab : d.width;
    int64_t columns = d.transW ? d.width : d.vocab;
    int64_t bytes = scratchLine(columns) * 4;
    parallelRange(rows, 16, [&](int64_t first, int64_t last) {
      float *old = static_cast<float *>(threadScratch(bytes));
      for (int64_t i = first; i < last; ++i) {
        float *sum = floats(plan.dw) + i * columns;
        void *to = floatAt(d.dtypeDw, dw, i * columns);
        if (d.accumulateDw) {
          table.widen(d.dtypeDw, to, old, columns);
          table.add(old, sum, columns);
        }
        table.narrow(d.dtypeDw, sum, to, columns);
      }
    });
  }

  const ShxLinearCrossEntropy &d;
  const LossPlan plan;
  const void *x, *w, *labels;
  const float seed;
  void *dx, *dw;
  char *workspace;
  int64_t begin = 0, count = 0; // the rows at hand
  const bool sumsDw = d.dtypeDw != SHX_F32;
};

// The rows of shx_cross_entropy are summed in at most this many parts.
constexpr int64_t kLossParts = 256;

double crossEntropyRows(const ShxCrossEntropy &d, const void *logits,
                        const void *labels, float seed, void *dlogits,
                        int64_t begin, int64_t end) {
  const Kernels &table = kernels();
  float *copy = nullptr;
  if (d.dtype != SHX_F32)
    copy = static_cast<float *>(threadScratch(scratchLine(d.classes) * 4));
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    const void *from = floatAt(d.dtype, logits, i * d.classes);
    void *to = dlogits ? floatAt(d.dtype, dlogits, i * d.classes) : nullptr;
    int64_t label = indexAt(d.labelDtype, labels, i);
    if (label == d.ignoreIndex) {
      if (to)
        std::memset(to, 0, size_t(d.classes * floatBytes(d.dtype)));
      continue;
    }
    if (!copy) {
      sum += table.crossEntropyRow(static_cast<const float *>(from), d.classes,
                                   label, 0, seed, static_cast<float *>(to));
      continue;
    }
    table.widen(d.dtype, from, copy, d.classes);
    sum += table.crossEntropyRow(copy, d.classes, label, 0, seed,
                                 to ? copy : nullptr);
    if (to)
      table.narrow(d.dtype, copy, to, d.classes);
  }
  return sum;
}

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_linear_cross_entropy(ShxContext *ctx,
                              const ShxLinearCrossEntropy *desc, const void *x,
                              const void *w, const void *labels,
                              const float *seed, float *loss, void *dx,
                              void *dw, void *workspace) {
  TraceScope scope(ctx, "linear_cross_entropy");
  float scale = dx || dw ? *seed : 0;
  LinearCrossEntropy call(*desc, x, w, labels, scale, dx, dw, workspace);
  *loss = float(call.run());
}

void shx_cross_entropy(ShxContext *ctx, const ShxCrossEntropy *desc,
                       const void *logits, const void *labels,
                       const float *seed, float *loss, void *dlogits) {
  TraceScope scope(ctx, "cross_entropy");
  float scale = dlogits ? *seed : 0;
  double sums[kLossParts] = {};
  int64_t parts = desc->rows < kLossParts ? desc->rows : kLossParts;
  parallelTasks(parts, [&](int64_t part) {
    sums[part] = crossEntropyRows(*desc, logits, labels, scale, dlogits,
                                  part * desc->rows / parts,
                                  (part + 1) * desc->rows / parts);
  });
  double sum = 0;
  for (int64_t part = 0; part < parts; ++part)
    sum += sums[part];
  *loss = float(sum);
}
