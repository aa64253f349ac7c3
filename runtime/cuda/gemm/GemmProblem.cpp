// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GemmProblem.h.

#include "GemmProblem.h"
#include "../plan/GemmPlan.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

// A library's batch count and grids are smaller than this; more are given to
// it piecewise.
constexpr int64_t kMostBatches = 65535;

struct BatchDim {
  int64_t count, a, b, c;
};

// Whether `outer` goes on where `inner` ends, in every operand.
bool continues(const BatchDim &outer, const BatchDim &inner) {
  return outer.a == inner.a * inner.count && outer.b == inner.b * inner.count &&
         outer.c == inner.c * inner.count;
}

// The dims of more than one index, adjacent ones made one where they can be.
std::vector<BatchDim> batchDims(const ShxGemm &desc) {
  std::vector<BatchDim> dims;
  for (int32_t i = 0; i < desc.batchRank; ++i) {
    if (desc.batch[i] == 1)
      continue;
    BatchDim dim{desc.batch[i], desc.batchStrideA[i], desc.batchStrideB[i],
                 desc.batchStrideC[i]};
    if (!dims.empty() && continues(dims.back(), dim))
      dims.back() = {dims.back().count * dim.count, dim.a, dim.b, dim.c};
    else
      dims.push_back(dim);
  }
  return dims;
}

// Where B is one matrix for the innermost dim, and the rows of A and C go on
// from one index to the next, they are the rows of one taller product.
void flattenRows(const ShxGemm &desc, std::vector<BatchDim> &dims, int64_t &m) {
  while (!dims.empty() && !desc.transA && dims.back().b == 0 &&
         dims.back().a == m * desc.lda && dims.back().c == m * desc.ldc) {
    m *= dims.back().count;
    dims.pop_back();
  }
}

// The largest of 256, 128 … that divides every address of an operand.
int32_t alignmentOf(const void *address, const std::vector<GemmOffset> &offsets,
                    int64_t GemmOffset::*offset, int32_t dtype) {
  uint64_t bits = kGemmAlignment | reinterpret_cast<uintptr_t>(address);
  for (const GemmOffset &each : offsets)
    bits |= uint64_t(each.*offset * bytesOf(dtype));
  return int32_t(bits & (~bits + 1));
}

// 0: the epilogue has no such operand.
int32_t alignmentOf(const void *address) {
  return address ? alignmentOf(address, {}, &GemmOffset::a, SHX_F32) : 0;
}

// All indices of the dims but `inner`, that one in pieces.
std::vector<GemmOffset> outerOffsets(const std::vector<BatchDim> &dims,
                                     size_t inner, int64_t piece) {
  std::vector<GemmOffset> offsets{{}};
  for (size_t d = 0; d < dims.size(); ++d) {
    const BatchDim &dim = dims[d];
    int64_t step = d == inner ? piece : 1;
    std::vector<GemmOffset> more;
    for (const GemmOffset &from : offsets)
      for (int64_t i = 0; i < dim.count; i += step)
        more.push_back(
            {from.a + i * dim.a, from.b + i * dim.b, from.c + i * dim.c});
    offsets = std::move(more);
  }
  return offsets;
}

// The largest divisor of `count` that a library takes as one batch.
int64_t batchPiece(int64_t count) {
  for (int64_t pieces = (count + kMostBatches - 1) / kMostBatches;; ++pieces)
    if (count % pieces == 0)
      return count / pieces;
}

} // namespace

GemmCall makeGemmCall(const ShxGemm &desc, const GemmOperands &operands,
                      int64_t libraryBytes) {
  GemmCall call;
  GemmProblem &p = call.problem;
  int64_t m = desc.m;
  std::vector<BatchDim> dims = batchDims(desc);
  flattenRows(desc, dims, m);
  p.rows = desc.n;
  p.columns = m;
  p.k = desc.k;
  p.ldLeft = desc.ldb;
  p.ldRight = desc.lda;
  p.ldResult = desc.ldc;
  p.transLeft = desc.transB != 0;
  p.transRight = desc.transA != 0;
  p.dtypeIn = desc.dtypeB;
  p.dtypeRight = desc.dtypeA;
  p.dtypeOut = desc.dtypeC;
  p.epilogue = desc.epilogue;
  p.accumulate = desc.accumulate != 0;
  p.fastSums = (desc.flags & SHX_GEMM_FAST_SUMS) != 0;
  p.rowSteps = (desc.flags & SHX_GEMM_ROW_STEPS) != 0;
  p.tf32 = (desc.flags & SHX_GEMM_TF32) != 0 && desc.dtypeA == SHX_F32;
  p.workspaceBytes = libraryBytes;
  call.offsets = {{}};
  if (!dims.empty()) {
    auto largest = std::max_element(
        dims.begin(), dims.end(),
        [](const BatchDim &x, const BatchDim &y) { return x.count < y.count; });
    p.batch = batchPiece(largest->count);
    p.strideLeft = largest->b;
    p.strideRight = largest->a;
    p.strideResult = largest->c;
    call.offsets = outerOffsets(dims, size_t(largest - dims.begin()), p.batch);
  }
  p.alignLeft =
      alignmentOf(operands.b, call.offsets, &GemmOffset::b, p.dtypeIn);
  p.alignRight =
      alignmentOf(operands.a, call.offsets, &GemmOffset::a, p.dtypeRight);
  p.alignResult =
      alignmentOf(operands.c, call.offsets, &GemmOffset::c, p.dtypeOut);
  p.alignBias = alignmentOf(operands.bias);
  p.alignAux = alignmentOf(operands.aux);
  return call;
}

bool mayFuseEpilogue(const GemmProblem &problem) {
  auto allowed = [](int32_t align) { return align == 0 || align >= 16; };
  if (problem.addsAux()) // an operand like the result
    return problem.k > 0 && problem.batch == 1;
  if (isF8(problem.dtypeIn) && problem.dtypeOut == SHX_F32)
    return false;
  if (problem.alignAux != 0 && problem.ldResult % 8 != 0)
    return false;
  return problem.k > 0 && problem.batch == 1 && allowed(problem.alignBias) &&
         allowed(problem.alignAux);
}

std::string GemmProblem::key() const {
  std::string text;
  auto add = [&text](const char *name, int64_t value) {
    text += name + std::to_string(value);
  };
  add("r", rows);
  add("c", columns);
  add("k", k);
  add("l", ldLeft);
  add(transLeft ? "t" : "n", ldRight);
  add(transRight ? "t" : "n", ldResult);
  add("i", dtypeIn);
  if (isF8(dtypeIn)) {
    add(".", dtypeRight);
    add("s", fastSums);
    add(".", rowSteps);
  }
  add("o", dtypeOut);
  add("b", batch);
  if (batch > 1) {
    add(".", strideLeft);
    add(".", strideRight);
    add(".", strideResult);
  }
  add("e", epilogue);
  add("+", accumulate);
  add("f", tf32);
  add("a", alignLeft);
  add(".", alignRight);
  add(".", alignResult);
  if (epilogue != SHX_EPILOGUE_NONE) {
    add(".", alignBias);
    add(".", alignAux);
  }
  add("w", workspaceBytes);
  if (processors > 0)
    add("p", processors);
  return text;
}

} // namespace shardonnx::rt::cuda
