// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Gemm.h. How algorithms are chosen is in GemmTune.cpp.

#include "Gemm.h"
#include "../../support/Error.h"
#include "../plan/ElementBytes.h"
#include "../plan/GemmPlan.h"
#include "GemmEpilogue.h"
#include "shardonnx/runtime/DevicePlan.h"
#include <algorithm>

namespace shardonnx::rt::cuda {

Gemm::Gemm(Context &context, const std::string &cacheFolder)
    : context(context), cacheFolder(cacheFolder) {}

Gemm::~Gemm() {
  if (handle)
    cublasLt().cublasLtDestroy(handle);
}

cublasLtHandle_t Gemm::library() {
  if (!handle)
    if (cublasStatus_t status = cublasLt().cublasLtCreate(&handle);
        status != CUBLAS_STATUS_SUCCESS)
      fail("cuBLASLt does not start on ", context.device->name(), ": ",
           cublasLt().cublasLtGetStatusName(status),
           "; is there memory left on the GPU (`nvidia-smi` tells)?");
  return handle;
}

void Gemm::multiply(const ShxGemm &desc, const GemmOperands &operands,
                    void *workspace, int64_t bytes) {
  if (desc.m == 0 || desc.n == 0)
    return;
  if (workspace)
    alignWorkspace(workspace, bytes);
  GemmCall call = makeGemmCall(desc, operands, workspace ? bytes : 0);
  GemmProblem &problem = call.problem;
  bool deterministic = (desc.flags & SHX_GEMM_DETERMINISTIC) != 0;
  // The same algorithm at every number of ranks, where that is asked for.
  if (context.ranks > 1 && !deterministic)
    problem.processors =
        std::max(1, context.device->multiprocessors() - kQueueBlocks);
  bool epilogue = problem.epilogue != SHX_EPILOGUE_NONE;
  // What the result is added to does not matter to the sums of an operand.
  bool sums = problem.epilogue == SHX_EPILOGUE_BGRAD;
  if (epilogue && (problem.batch > 1 || (problem.accumulate && !sums)))
    fail("a product with an epilogue is batched or accumulated, which this "
         "runtime does not do: recompile with a compiler of the same version");
  if (problem.k == 0) { // the library refuses it
    if (!problem.accumulate)
      for (const GemmOffset &offset : call.offsets)
        clearResult(problem, operands, offset);
    if (epilogue)
      enqueueEpilogue(context, problem, operands, workspace);
    return;
  }
  std::string key = problem.key();
  if (context.preparing()) {
    if (choices.count(key) == 0 && known.insert(key).second)
      pending.push_back({key, problem, operands, call.offsets.front(),
                         workspace, !deterministic});
    return;
  }
  const GemmChoice &choice = choiceOf(key, problem, operands);
  LtProduct product(problem, operands, choice.fused);
  context.lastWork = "a matrix product";
  for (const GemmOffset &offset : call.offsets)
    if (cublasStatus_t status =
            enqueue(product, problem, operands, choice, offset, workspace);
        status != CUBLAS_STATUS_SUCCESS)
      failCublasLt(status, problem);
}

cublasStatus_t Gemm::enqueue(const LtProduct &product,
                             const GemmProblem &problem,
                             const GemmOperands &operands,
                             const GemmChoice &choice, const GemmOffset &offset,
                             void *workspace) {
  cublasLtMatmulAlgo_t algorithm;
  static_assert(sizeof algorithm == sizeof choice.algorithm);
  std::copy(choice.algorithm.begin(), choice.algorithm.end(), algorithm.data);
  cublasStatus_t status =
      product.run(library(), algorithm, offset, workspace, context.compute);
  if (status == CUBLAS_STATUS_SUCCESS && !choice.fused &&
      problem.epilogue != SHX_EPILOGUE_NONE)
    enqueueEpilogue(context, problem, operands, workspace);
  return status;
}

// A sum of no products, matrix by matrix, row by row where rows have gaps.
void Gemm::clearResult(const GemmProblem &p, const GemmOperands &operands,
                       const GemmOffset &offset) {
  if (context.preparing())
    return;
  int64_t row = p.rows * bytesOf(p.dtypeOut),
          step = p.ldResult * bytesOf(p.dtypeOut);
  bool whole = row == step || p.columns == 1;
  for (int64_t i = 0; i < p.batch; ++i) {
    CUdeviceptr at =
        deviceAddress(operands.c) +
        CUdeviceptr((offset.c + i * p.strideResult) * bytesOf(p.dtypeOut));
    for (int64_t j = 0; j < (whole ? 1 : p.columns); ++j)
      check(driver().cuMemsetD8Async(at + CUdeviceptr(j * step), 0,
                                     size_t(whole ? row * p.columns : row),
                                     context.compute),
            "clearing the result of an empty product");
  }
}

namespace {

// What the copy of an operand into the workspace looks like: its distinct
// matrices one after the other, rows without gaps.
ShxCopy compactCopy(const ShxGemm &desc, const int64_t *strides, int64_t rows,
                    int64_t columns, int64_t ld, int32_t from, int32_t to,
                    int64_t *compactStrides) {
  ShxCopy copy{};
  copy.srcDtype = from;
  copy.dstDtype = to;
  int64_t step = rows * columns;
  for (int32_t i = desc.batchRank - 1; i >= 0; --i) {
    compactStrides[i] = strides[i] != 0 ? step : 0;
    step *= strides[i] != 0 ? desc.batch[i] : 1;
  }
  auto dim = [&copy](int64_t size, int64_t src, int64_t dst) {
    copy.dims[copy.rank] = size;
    copy.srcStride[copy.rank] = src;
    copy.dstStride[copy.rank++] = dst;
  };
  for (int32_t i = 0; i < desc.batchRank; ++i)
    if (strides[i] != 0)
      dim(desc.batch[i], strides[i], compactStrides[i]);
  dim(rows, ld, columns);
  dim(columns, 1, 1);
  return copy;
}

} // namespace

void gemm(Context &context, const ShxGemm &desc, const GemmOperands &operands,
          void *workspace) {
  GemmPlan plan = planGemm(desc);
  auto *space = static_cast<uint8_t *>(workspace);
  ShxGemm product = desc;
  GemmOperands used = operands;
  product.dtypeA = product.dtypeB = plan.dtypeIn;
  product.dtypeC = plan.dtypeOut;
  if (plan.a >= 0) {
    int64_t rows = desc.transA ? desc.k : desc.m;
    int64_t columns = desc.transA ? desc.m : desc.k;
    ShxCopy copy = compactCopy(desc, desc.batchStrideA, rows, columns, desc.lda,
                               desc.dtypeA, plan.dtypeIn, product.batchStrideA);
    product.lda = columns;
    used.a = space + plan.a;
    shx_copy(&context, &copy, operands.a, space + plan.a);
  }
  if (plan.b >= 0) {
    int64_t rows = desc.transB ? desc.n : desc.k;
    int64_t columns = desc.transB ? desc.k : desc.n;
    ShxCopy copy = compactCopy(desc, desc.batchStrideB, rows, columns, desc.ldb,
                               desc.dtypeB, plan.dtypeIn, product.batchStrideB);
    product.ldb = columns;
    used.b = space + plan.b;
    shx_copy(&context, &copy, operands.b, space + plan.b);
  }
  if (plan.c < 0) {
    context.gemm->multiply(product, used, space + plan.library,
                           plan.libraryBytes);
    return;
  }
  if (desc.epilogue != SHX_EPILOGUE_NONE)
    fail("a product with an epilogue has a result of another dtype than the "
         "library gives: recompile with a compiler of the same version");
  // The sum is of full precision, and rounded once when it is added.
  ShxCopy copy = compactCopy(desc, desc.batchStrideC, desc.m, desc.n, desc.ldc,
                             desc.dtypeC, plan.dtypeOut, product.batchStrideC);
  product.ldc = desc.n;
  product.accumulate = 0;
  used.c = space + plan.c;
  context.gemm->multiply(product, used, space + plan.library,
                         plan.libraryBytes);
  std::swap(copy.srcDtype, copy.dstDtype);
  std::swap(copy.srcStride, copy.dstStride);
  copy.accumulate = desc.accumulate;
  shx_copy(&context, &copy, used.c, operands.c);
}

} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

void shx_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
              const void *b, void *c, void *workspace) {
  gemm(contextOf(ctx), *desc, a, b, c, workspace);
}

void shx_f8_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
                 const void *b, const float *stepA, const float *stepB, void *c,
                 void *addend, void *workspace) {
  ShxGemm product = *desc;
  bool vector = desc->epilogue == SHX_EPILOGUE_BIAS;
  if (addend)
    product.epilogue = SHX_EPILOGUE_BIAS;
  GemmOperands operands{
      a,     b,    c, vector ? addend : nullptr, vector ? nullptr : addend,
      stepA, stepB};
  contextOf(ctx).gemm->multiply(product, operands, workspace,
                                planGemm(*desc).libraryBytes);
}

void shx_gemm_epilogue(ShxContext *ctx, const ShxGemm *desc, const void *a,
                       const void *b, void *c, void *bias, void *aux,
                       void *workspace) {
  gemm(contextOf(ctx), *desc, {a, b, c, bias, aux}, workspace);
}
