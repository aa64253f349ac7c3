// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries that see no key but whose scores are finite, since masks hide by
// large negative numbers: a softmax weighs what is hidden all the same, keys
// after the query among it. They are few (padding before a sample). Attention's
// kernels skip hidden keys and know a query by its log-sum-exp, which rounds
// away the sum of such; so these queries are computed again, by definition.

#ifndef SHARDONNX_RUNTIME_CPU_ATTENTIONUNSEEN_H
#define SHARDONNX_RUNTIME_CPU_ATTENTIONUNSEEN_H

#include "Kernels.h"

namespace shardonnx::rt {

/// Replaces the results of such queries, and their log-sum-exp by their largest
/// score. `scratchBytes`: of a thread, what attention's kernels have.
void attendUnseen(const ShxAttention &desc, const AttentionOperands &args,
                  int64_t scratchBytes);

/// Replaces their dq, which the kernels left zeros, and adds to dk and dv.
void attendUnseenGrad(const ShxAttention &desc,
                      const AttentionGradOperands &args, int64_t scratchBytes);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_ATTENTIONUNSEEN_H
