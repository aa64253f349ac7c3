// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Newton-Schulz on a GPU (--optimizer=muon; formulas: torch.optim.Muon).

#ifndef SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZ_H
#define SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZ_H

#include "../launch/Context.h"
#include "../plan/NewtonSchulzPlan.h"

namespace shardonnx::rt::cuda {

/// As work of the compute stream: the matrix, rows x columns in bf16, is
/// replaced by its nearest semi-orthogonal one. The workspace is
/// planNewtonSchulz()'s, of so many sums.
void orthogonalize(Context &context, void *matrix, int64_t rows,
                   int64_t columns, void *workspace,
                   int64_t sums = kNewtonSchulzSums);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZ_H
