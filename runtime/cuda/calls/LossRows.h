// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of rows of logits (kernels/CrossEntropy.cu), for the calls that
// are given logits and for those that make them.

#ifndef SHARDONNX_RUNTIME_CUDA_LOSSROWS_H
#define SHARDONNX_RUNTIME_CUDA_LOSSROWS_H

#include "../kernels/Shapes.h"
#include "../launch/Context.h"

namespace shardonnx::rt::cuda {

/// Rows of logits, and what is to become of them.
struct LossRows {
  int32_t dtype, labelDtype;
  int64_t rows, classes, stride, ignored;
  float softcap; // 0: none
  const void *logits;
  void *dlogits; // may be null, or the logits
  const void *labels;
  const float *seed; // read when there are dlogits
};

/// losses[b] = the losses of all rows r with r % blocks = b; null: an array of
/// the kernel's own, for kLossBlocks blocks at most.
void lossOfRows(Context &context, const LossRows &rows, int64_t blocks,
                double *losses);

/// A vocabulary that the ranks of an axis share: this one has the words from
/// `first` on, in rows of `count` logits, of `all`.
struct SharedWords {
  TableRows words;
  int32_t ranks;
  /// How many of the rows are words.
  int64_t here() const;
};

/// shares[r] = what this rank tells the others of row r:
/// SHX_LOSS_SHARE_NUMBERS.
void sharesOfRows(Context &context, const LossRows &rows,
                  const SharedWords &shared, float *shares);

/// losses[r] = the loss of row r, of which all ranks have told their shares,
/// one rank's behind the other's; gradients take the logits' place.
void lossOfShares(Context &context, const LossRows &rows,
                  const SharedWords &shared, const float *shares,
                  double *losses);

/// *loss = Σ losses, in an order that the count fixes; null as above.
void sumLosses(Context &context, const double *losses, int64_t count,
               float *loss);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_LOSSROWS_H
