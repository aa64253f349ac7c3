// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention calls: tasks for the pool.

#include "AttentionPlan.h"
#include "AttentionUnseen.h"
#include "Kernels.h"
#include "Pool.h"
#include "shardonnx/runtime/UnseenQueries.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::rt;

static const AttentionKernels &kernelsFor(const ShxAttention &desc) {
  const Kernels &table = kernels();
  bool pairs = desc.dtype == SHX_BF16 && table.bf16Attention;
  return pairs ? *table.bf16Attention : *table.f32Attention;
}

// What a thread probably does after a task: the threads take them in turn.
static int64_t taskAfter(int64_t task) { return task + omp_get_num_threads(); }

void shx_attention(ShxContext *ctx, const ShxAttention *desc, const void *q,
                   const void *k, const void *v, const void *mask, void *out,
                   float *lse, void *) {
  TraceScope scope(ctx, "attention");
  const AttentionKernels &table = kernelsFor(*desc);
  AttentionOperands args = {q, k, v, mask, out, lse};
  int64_t bytes = shardonnx::cpuLibraries().attentionScratch(*desc);
  int64_t tasks =
      planAttention(*desc).forwardBlocks * desc->batch * desc->kvHeads;
  parallelTasks(tasks, [&](int64_t task) {
    table.forward(*desc, args, task, taskAfter(task),
                  static_cast<float *>(threadScratch(bytes)));
  });
  if (mayBeUnseen(*desc, mask))
    attendUnseen(*desc, args, bytes);
}

// dq = the parts' sum, in the order of the parts.
static void sumPartialDq(const ShxAttention &d, const AttentionPlan &plan,
                         float *partial, void *dq) {
  const Kernels &table = kernels();
  int64_t rows = d.batch * d.heads * d.seqQ;
  int64_t element = d.dtype == SHX_F32 ? 4 : 2;
  parallelRange(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float *sum = partial + row * d.headDim;
      for (int64_t part = 1; part < plan.keyParts; ++part)
        table.add(sum + part * plan.partialSize, sum, d.headDim);
      int64_t head = row / d.seqQ;
      int64_t at = head / d.heads * d.dqStride[0] +
                   row % d.seqQ * d.dqStride[1] +
                   head % d.heads * d.dqStride[2];
      table.narrow(d.dtype, sum, static_cast<char *>(dq) + at * element,
                   d.headDim);
    }
  });
}

void shx_attention_grad(ShxContext *ctx, const ShxAttention *desc,
                        const void *q, const void *k, const void *v,
                        const void *mask, const void *out, const float *lse,
                        const void *dout, void *dq, void *dk, void *dv,
                        void *workspace) {
  TraceScope scope(ctx, "attention_grad");
  const AttentionKernels &table = kernelsFor(*desc);
  AttentionPlan plan = planAttention(*desc);
  float *partial = plan.partialDq ? static_cast<float *>(workspace) : nullptr;
  AttentionGradOperands args = {q,    k,  v,  mask, out,    lse,
                                dout, dq, dk, dv,   partial};
  int64_t bytes = shardonnx::cpuLibraries().attentionGradScratch(*desc);
  int64_t tasks = plan.keyParts * desc->batch * desc->kvHeads;
  parallelTasks(tasks, [&](int64_t task) {
    table.gradient(*desc, args, task, taskAfter(task),
                   static_cast<float *>(threadScratch(bytes)));
  });
  if (partial)
    sumPartialDq(*desc, plan, partial, dq);
  if (mayBeUnseen(*desc, mask))
    attendUnseenGrad(*desc, args, bytes);
}
