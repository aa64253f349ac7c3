// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of given logits, and of logits that exist only a chunk of rows
// at a time: product, softmax with its gradient in place, two products back.
// Losses are summed in double, in an order that the shapes alone decide.

#include "Matrix.h"
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
      loadRows();
      makeLogits();
      loss += lossOfRows();
      if (dx)
        makeDx();
      if (dw)
        addDw();
    }
    if (dw && plan.widenDw)
      storeDw();
    return loss;
  }

private:
  float *floats(int64_t at) const {
    return reinterpret_cast<float *>(workspace + at);
  }

  void loadRows() {
    if (!plan.widenX) {
      rows = {static_cast<const float *>(x) + begin * d.ldx, d.ldx, false};
      return;
    }
    rows = {floats(plan.x), d.width, false};
    widenMatrix(d.dtypeX, floatAt(d.dtypeX, x, begin * d.ldx), d.ldx, count,
                d.width, floats(plan.x));
  }

  // w for words [first, first + words), as [width, words].
  MatrixView weights(int64_t first, int64_t words) {
    int64_t at = d.transW ? first * d.width : first;
    int64_t stride = d.transW ? d.width : d.vocab;
    if (!plan.widenW)
      return {static_cast<const float *>(w) + at, stride, d.transW != 0};
    int64_t columns = d.transW ? d.width : words;
    if (widened != first)
      widenMatrix(d.dtypeW, floatAt(d.dtypeW, w, at), stride,
                  d.transW ? words : d.width, columns, floats(plan.w));
    widened = first;
    return {floats(plan.w), columns, d.transW != 0};
  }

  int64_t panelWords(int64_t first) const {
    return d.vocab - first < plan.panel ? d.vocab - first : plan.panel;
  }

  void makeLogits() {
    for (int64_t first = 0; first < d.vocab; first += plan.panel)
      sgemm(count, panelWords(first), d.width, rows,
            weights(first, panelWords(first)), 0, floats(plan.logits) + first,
            d.vocab);
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

  void makeDx() {
    float *to = plan.widenX ? floats(plan.dx)
                            : static_cast<float *>(dx) + begin * d.lddx;
    int64_t stride = plan.widenX ? d.width : d.lddx;
    for (int64_t first = 0; first < d.vocab; first += plan.panel) {
      MatrixView panel = weights(first, panelWords(first));
      panel.transposed = !panel.transposed;
      sgemm(count, d.width, panelWords(first),
            {floats(plan.logits) + first, d.vocab, false}, panel, first ? 1 : 0,
            to, stride);
    }
    if (plan.widenX)
      narrowMatrix(d.dtypeX, to, count, d.width,
                   floatAt(d.dtypeX, dx, begin * d.lddx), d.lddx);
  }

  void addDw() {
    float *to = plan.widenDw ? floats(plan.dw) : static_cast<float *>(dw);
    bool fresh = begin == 0 && (plan.widenDw || !d.accumulateDw);
    MatrixView logits = {floats(plan.logits), d.vocab, false};
    MatrixView left = d.transW ? logits : rows;
    left.transposed = true;
    int64_t m = d.transW ? d.vocab : d.width;
    int64_t n = d.transW ? d.width : d.vocab;
    sgemm(m, n, count, left, d.transW ? rows : logits, fresh ? 0 : 1, to, n);
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
  MatrixView rows{};
  int64_t begin = 0, count = 0;
  int64_t widened = -1; // the first word of the panel that is widened now
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
