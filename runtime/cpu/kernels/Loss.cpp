// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of given logits, and of logits that exist only a chunk of rows
// at a time: product, softmax with its gradient in place, two products back.
// Losses are summed in double, in an order that the shapes alone decide.

#include "Matrix.h"
#include "Product.h"
#include "SharedVocabulary.h"
#include "WorkspacePlan.h"
#include "shardonnx/runtime/Workspace.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kRowsPerTask = 8;

class LinearLoss {
public:
  LinearLoss(const ShxLinearCrossEntropy &desc, const void *x, const void *w,
             const void *labels, float seed, void *dx, void *dw,
             void *workspace)
      : d(desc), plan(planLoss(desc)), x(x), w(w), labels(labels), seed(seed),
        dx(dx), dw(dw), workspace(static_cast<char *>(workspace)) {}

  /// Other ranks have words, too, of `words`: this one is the `rank`-th of
  /// `ranks`.
  void share(int64_t rank, int64_t ranks, int64_t words,
             const ShareGather &how) {
    first = rank * d.vocab;
    here = std::min(d.vocab, words - first);
    parts = ranks;
    gather = &how;
  }

  double run() {
    double loss = 0;
    for (begin = 0; begin < d.rows; begin += d.chunkRows) {
      count = d.rows - begin < d.chunkRows ? d.rows - begin : d.chunkRows;
      makeLogits();
      loss += gather ? lossOfSharedRows() : lossOfRows();
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

  // Calls visit(i, logits, label) for each row of the chunk that has a label;
  // the others get no gradient.
  template <typename Visit> void forRows(Visit visit) const {
    parallelTasks(ceilDiv(count, kRowsPerTask), [&](int64_t task) {
      int64_t end = (task + 1) * kRowsPerTask;
      end = end < count ? end : count;
      for (int64_t i = task * kRowsPerTask; i < end; ++i) {
        float *row = floats(plan.logits) + i * d.vocab;
        int64_t label = indexAt(d.labelDtype, labels, begin + i);
        if (label != d.ignoreIndex) {
          visit(i, row, label);
          continue;
        }
        lossAt(i) = 0;
        if (dx || dw)
          std::memset(row, 0, size_t(d.vocab) * sizeof(float));
      }
    });
  }

  double &lossAt(int64_t i) const {
    return reinterpret_cast<double *>(workspace + plan.losses)[i];
  }

  double sumOfLosses() const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += lossAt(i);
    return sum;
  }

  double lossOfRows() const {
    const Kernels &table = kernels();
    forRows([&](int64_t i, float *row, int64_t label) {
      lossAt(i) = table.crossEntropyRow(row, d.vocab, label, d.softcap, seed,
                                        dx || dw ? row : nullptr);
    });
    return sumOfLosses();
  }

  // What a rank says of a row: log Σ e^logit of its words, and the label's
  // logit, which is one rank's; the others say 0.
  struct Share {
    float logSum, label;
  };

  // First each rank has the softmax of its own words, and its gradient, as if
  // the label were among them; from the shares of all follows by how much less
  // each word's is, and what the label's is.
  double lossOfSharedRows() const {
    const Kernels &table = kernels();
    auto *shares = reinterpret_cast<Share *>(workspace + plan.bytes);
    Share *mine = shares + parts * d.chunkRows;
    auto *taken = reinterpret_cast<float *>(mine + d.chunkRows);
    float *slope = dx || dw ? floats(plan.logits) : nullptr;
    auto place = [&](int64_t label) {
      bool inside = label >= first && label < first + here;
      return inside ? label - first : -1;
    };
    std::memset(mine, 0, size_t(count) * sizeof(Share));
    forRows([&](int64_t i, float *row, int64_t label) {
      int64_t at = place(label), word = at < 0 ? 0 : at;
      taken[i] = row[word];
      double loss = table.crossEntropyRow(row, here, word, 0, seed,
                                          slope ? row : nullptr);
      mine[i] = {float(loss + double(taken[i])), at < 0 ? 0 : taken[i]};
    });
    (*gather)(&mine->logSum, &shares->logSum, count *SHX_LOSS_SHARE_NUMBERS);
    forRows([&](int64_t i, float *row, int64_t label) {
      Share whole = wholeOf(shares, i);
      lossAt(i) = double(whole.logSum) - double(whole.label);
      if (!slope)
        return;
      int64_t at = place(label), word = at < 0 ? 0 : at;
      float less = std::exp(mine[i].logSum - whole.logSum);
      for (int64_t j = 0; j < here; ++j)
        row[j] *= less;
      std::fill(row + here, row + d.vocab, 0.0f); // no words
      row[word] = seed * (std::exp(taken[i] - whole.logSum) - (at < 0 ? 0 : 1));
    });
    return sumOfLosses();
  }

  // Of row i, in the order of ranks, so that all have the same bits.
  Share wholeOf(const Share *shares, int64_t i) const {
    float peak = shares[i].logSum, label = 0;
    for (int64_t r = 0; r < parts; ++r)
      peak = std::max(peak, shares[r * count + i].logSum);
    double sum = 0;
    for (int64_t r = 0; r < parts; ++r) {
      sum += std::exp(double(shares[r * count + i].logSum) - double(peak));
      label += shares[r * count + i].label;
    }
    return {float(double(peak) + std::log(sum)), label};
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
  const ShareGather *gather = nullptr; // of a vocabulary that is shared
  int64_t first = 0, here = 0;         // this rank's words
  int64_t parts = 1;
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

void lossOfPart(const ShxLinearCrossEntropyPart &desc, int64_t place,
                const void *x, const void *w, const void *labels,
                const float *seed, float *loss, void *dx, void *dw,
                void *workspace, const ShareGather &gather) {
  float scale = dx || dw ? *seed : 0;
  LinearLoss call(desc.loss, x, w, labels, scale, dx, dw, workspace);
  call.share(place, desc.parts, desc.words, gather);
  *loss = float(call.run());
}

} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_linear_cross_entropy(ShxContext *ctx,
                              const ShxLinearCrossEntropy *desc, const void *x,
                              const void *w, const void *labels,
                              const float *seed, float *loss, void *dx,
                              void *dw, void *workspace) {
  TraceScope scope(ctx, "linear_cross_entropy");
  float scale = dx || dw ? *seed : 0;
  LinearLoss call(*desc, x, w, labels, scale, dx, dw, workspace);
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
