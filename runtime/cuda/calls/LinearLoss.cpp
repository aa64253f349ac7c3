// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of logits that exist only a chunk of rows at a time: product,
// softmax with its gradient in the logits' place, two products back.

#include "../gemm/Gemm.h"
#include "../plan/LossPlan.h"
#include "LossRows.h"
#include <algorithm>
#include <type_traits>

namespace shardonnx::rt::cuda {
namespace {

class LinearCrossEntropy {
public:
  LinearCrossEntropy(Context &context, const ShxLinearCrossEntropy &desc,
                     const void *x, const void *w, void *dx, void *dw,
                     void *workspace)
      : context(context), d(desc), plan(planLoss(desc)), x(x), w(w), dx(dx),
        dw(dw), workspace(static_cast<uint8_t *>(workspace)) {}

  /// Other ranks of the axis have words, too, of `words`.
  void share(MeshAxis over, int32_t ranks, int64_t words) {
    axis = over;
    shared.words = {context.collectives->axisRank(over) * d.vocab, d.vocab,
                    words};
    shared.ranks = ranks;
  }

  void run(const void *labels, const float *seed, float *loss) {
    auto *losses = reinterpret_cast<double *>(workspace + plan.losses);
    for (begin = 0; begin < d.rows; begin += d.chunkRows) {
      count = std::min(d.chunkRows, d.rows - begin);
      eachPart([this](LossWords words) { addLogits(words); });
      LossRows rows = rowsOfChunk(labels, seed);
      if (shared.ranks > 1)
        lossOfSharedRows(rows, losses + begin);
      else
        lossOfRows(context, rows, count, losses + begin);
      if (dx)
        eachPart([this](LossWords words) { addDx(words); });
      if (dw)
        eachPart([this](LossWords words) { addDw(words); });
    }
    if (dw && plan.dw >= 0)
      storeDw();
    sumLosses(context, losses, d.rows, loss);
  }

private:
  void *logits() const { return workspace + plan.logits; }
  void *logitsOf(LossWords words) const {
    return workspace + plan.logits + words.begin * bytesOf(plan.dtype);
  }
  // Where words begin in the weight, or in what is laid out as it is.
  template <typename Matrix>
  Matrix *wordsOf(Matrix *matrix, int32_t dtype, LossWords words) const {
    using Byte =
        std::conditional_t<std::is_const_v<Matrix>, const uint8_t, uint8_t>;
    int64_t elements = words.begin * (d.transW ? d.width : 1);
    return static_cast<Byte *>(matrix) + elements * bytesOf(dtype);
  }
  // Row `begin` of x or dx.
  const void *rowOf(const void *matrix, int64_t stride) const {
    return static_cast<const uint8_t *>(matrix) +
           begin * stride * bytesOf(d.dtypeX);
  }
  LossRows rowsOfChunk(const void *labels, const float *seed) const {
    LossRows rows{};
    rows.dtype = plan.dtype;
    rows.labelDtype = d.labelDtype;
    rows.rows = count;
    rows.classes = d.vocab;
    rows.stride = plan.stride;
    rows.ignored = d.ignoreIndex;
    rows.softcap = d.softcap;
    rows.logits = logits();
    rows.dlogits = dx || dw ? logits() : nullptr;
    rows.labels =
        static_cast<const uint8_t *>(labels) + begin * bytesOf(d.labelDtype);
    rows.seed = seed;
    return rows;
  }

  void lossOfSharedRows(const LossRows &rows, double *losses) {
    auto *shares = reinterpret_cast<float *>(workspace + plan.bytes);
    float *mine = shares + shared.ranks * d.chunkRows * SHX_LOSS_SHARE_NUMBERS;
    sharesOfRows(context, rows, shared, mine);
    context.collectives->exchangeAlong(
        {SHX_AXIS_ALL_GATHER, axis, SHX_F32, mine, shares,
         count * SHX_LOSS_SHARE_NUMBERS * int64_t(sizeof(float))});
    lossOfShares(context, rows, shared, shares, losses);
  }

  void product(const ShxGemm &desc, const void *a, const void *b, void *c) {
    gemm(context, desc, a, b, c, workspace + plan.gemm);
  }

  // First those that are many, then those that are left.
  template <typename Body> void eachPart(Body body) {
    int64_t cut = lossWordsCut(d);
    body({0, cut});
    if (cut < d.vocab)
      body({cut, d.vocab - cut});
  }
  void addLogits(LossWords words) {
    product(lossProducts(d, count, words).logits, rowOf(x, d.ldx),
            wordsOf(w, d.dtypeW, words), logitsOf(words));
  }
  void addDx(LossWords words) {
    product(lossProducts(d, count, words).dx, logitsOf(words),
            wordsOf(w, d.dtypeW, words), const_cast<void *>(rowOf(dx, d.lddx)));
  }
  void addDw(LossWords words) {
    ShxGemm desc = lossProducts(d, count, words).dw;
    desc.accumulate = begin > 0 || (plan.dw < 0 && d.accumulateDw);
    const void *rows = rowOf(x, d.ldx);
    void *to = wordsOf(plan.dw < 0 ? dw : workspace + plan.dw, SHX_F32, words);
    const void *parts = logitsOf(words);
    product(desc, d.transW ? parts : rows, d.transW ? rows : parts, to);
  }

  // The sum of all chunks is rounded once.
  void storeDw() {
    ShxCopy copy{};
    copy.rank = 1;
    copy.dims[0] = d.vocab * d.width;
    copy.srcStride[0] = copy.dstStride[0] = 1;
    copy.srcDtype = SHX_F32;
    copy.dstDtype = d.dtypeDw;
    copy.accumulate = d.accumulateDw;
    shx_copy(&context, &copy, workspace + plan.dw, dw);
  }

  Context &context;
  const ShxLinearCrossEntropy &d;
  const LossPlan plan;
  const void *x, *w;
  void *dx, *dw;
  uint8_t *workspace;
  MeshAxis axis = MeshAxis::Tensor;
  SharedWords shared{{}, 1};
  int64_t begin = 0, count = 0;
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" void shx_linear_cross_entropy(ShxContext *ctx,
                                         const ShxLinearCrossEntropy *desc,
                                         const void *x, const void *w,
                                         const void *labels, const float *seed,
                                         float *loss, void *dx, void *dw,
                                         void *workspace) {
  LinearCrossEntropy call(contextOf(ctx), *desc, x, w, dx, dw, workspace);
  call.run(labels, seed, loss);
}

extern "C" void shx_linear_cross_entropy_part(
    ShxContext *ctx, const ShxLinearCrossEntropyPart *desc, const void *x,
    const void *w, const void *labels, const float *seed, float *loss, void *dx,
    void *dw, void *workspace) {
  LinearCrossEntropy call(contextOf(ctx), desc->loss, x, w, dx, dw, workspace);
  call.share(static_cast<shardonnx::MeshAxis>(desc->axis), desc->parts,
             desc->words);
  call.run(labels, seed, loss);
}
