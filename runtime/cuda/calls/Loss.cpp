// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of given logits: launches of kernels/CrossEntropy.cu.

#include "../kernels/Shapes.h"
#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "LossRows.h"
#include <algorithm>

namespace shardonnx::rt::cuda {

void lossOfRows(Context &context, const LossRows &rows, int64_t blocks,
                double *losses) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_cross_entropy");
  const LossRows &r = rows;
  if (r.classes > INT32_MAX)
    fail("a cross-entropy has ", r.classes,
         " classes, more than the kernel's 2^31 - 1");
  auto classes = static_cast<int32_t>(r.classes);
  launch(context, names(r.dtype), blocks, kLossThreads, 0, r.logits, r.dlogits,
         r.labels, r.seed, losses, r.rows, r.stride, r.ignored, classes,
         r.labelDtype, r.softcap);
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
