// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of given logits: launches of kernels/CrossEntropy.cu.

#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "LossRows.h"
#include <algorithm>

namespace shardonnx::rt::cuda {

static int32_t classesOf(int64_t count) {
  if (count > INT32_MAX)
    fail("a cross-entropy has ", count,
         " classes, more than the kernel's 2^31 - 1");
  return static_cast<int32_t>(count);
}

void lossOfRows(Context &context, const LossRows &rows, int64_t blocks,
                double *losses) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_cross_entropy");
  const LossRows &r = rows;
  launch(context, names(r.dtype), blocks, kLossThreads, 0, r.logits, r.dlogits,
         r.labels, r.seed, losses, r.rows, r.stride, r.ignored,
         classesOf(r.classes), r.labelDtype, r.softcap);
}

int64_t SharedWords::here() const {
  return std::clamp<int64_t>(words.all - words.first, 0, words.count);
}

void sharesOfRows(Context &context, const LossRows &r,
                  const SharedWords &shared, float *shares) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_loss_share");
  launch(context, names(r.dtype), r.rows, kLossThreads, 0, r.logits, r.labels,
         static_cast<void *>(shares), shared.words, r.stride, r.ignored,
         classesOf(shared.here()), r.labelDtype);
}

void lossOfShares(Context &context, const LossRows &r,
                  const SharedWords &shared, const float *shares,
                  double *losses) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_shared_loss");
  launch(context, names(r.dtype), r.rows, kLossThreads, 0, r.dlogits, r.labels,
         r.seed, static_cast<const void *>(shares), losses, shared.words,
         r.stride, r.ignored, classesOf(shared.here()), r.labelDtype,
         shared.ranks);
}

void sumLosses(Context &context, const double *losses, int64_t count,
               float *loss) {
  launch(context, "shx_k_sum_losses", 1, kLossThreads, 0, losses, count, loss);
}

} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" void shx_cross_entropy(ShxContext *ctx, const ShxCrossEntropy *desc,
                                  const void *logits, const void *labels,
                                  const float *seed, float *loss,
                                  void *dlogits) {
  const ShxCrossEntropy &d = *desc;
  LossRows rows{};
  rows.dtype = d.dtype;
  rows.labelDtype = d.labelDtype;
  rows.rows = d.rows;
  rows.classes = rows.stride = d.classes;
  rows.ignored = d.ignoreIndex;
  rows.logits = logits;
  rows.dlogits = dlogits;
  rows.labels = labels;
  rows.seed = seed;
  int64_t blocks = std::min(d.rows, kLossBlocks);
  lossOfRows(contextOf(ctx), rows, blocks, nullptr);
  sumLosses(contextOf(ctx), nullptr, blocks, loss);
}
