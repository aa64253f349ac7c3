// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CublasLt.h.

#include "CublasLt.h"
#include "../../support/Error.h"
#include "../driver/CallTrace.h"
#include "../driver/Library.h"
#include "../plan/ElementBytes.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx::rt::cuda {
namespace {

CublasLtApi loadCublasLt() {
  const Library library =
      Library::ofToolkit("libcublasLt.so.13", "cuBLASLt 13");
  CublasLtApi api;
#define SHX_CUBLASLT_LOAD(name)                                                \
  library.load(api.name, #name);                                               \
  SHX_TRACED(api, name, "cublasLt", #name)
  SHX_CUBLASLT_FUNCTIONS(SHX_CUBLASLT_LOAD)
#undef SHX_CUBLASLT_LOAD
  return api;
}

cudaDataType_t typeOf(int32_t dtype) {
  switch (dtype) {
  case SHX_BF16:
    return CUDA_R_16BF;
  case SHX_F16:
    return CUDA_R_16F;
  case SHX_F8E4M3:
    return CUDA_R_8F_E4M3;
  case SHX_F8E5M2:
    return CUDA_R_8F_E5M2;
  default:
    return CUDA_R_32F;
  }
}

// The library's epilogue. A column-major result has our columns for rows, so
// its bias, one for each row, is ours; its left operand is our B, so that
// BGRADA sums our B's columns.
cublasLtEpilogue_t epilogueOf(const GemmProblem &problem) {
  switch (problem.epilogue) {
  case SHX_EPILOGUE_BIAS:
    return CUBLASLT_EPILOGUE_BIAS;
  case SHX_EPILOGUE_GELU_BIAS:
    return problem.alignAux != 0 ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                 : CUBLASLT_EPILOGUE_GELU_BIAS;
  case SHX_EPILOGUE_DGELU:
    return CUBLASLT_EPILOGUE_DGELU;
  case SHX_EPILOGUE_BGRAD:
    return CUBLASLT_EPILOGUE_BGRADA;
  default:
    return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// How the parts of a sum over k may be added up: one after the other, or from
// f32 in the workspace by a kernel of its own. Not in the result's memory and
// not in its dtype, which would round each part.
constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

// What the library proposes, for the trace of calls.
void traceFound(const GemmProblem &problem,
                const std::vector<cublasLtMatmulHeuristicResult_t> &found) {
  if (!callsAreTraced())
    return;
  std::string list;
  for (const cublasLtMatmulHeuristicResult_t &one : found) {
    std::string words;
    for (uint64_t word : one.algo.data)
      words += concat(words.empty() ? "" : ", ", word);
    list += concat(list.empty() ? "" : ", ", "{\"state\": ", int(one.state),
                   ", \"workspace\": ", one.workspaceSize,
                   ", \"waves\": ", one.wavesCount, ", \"algorithm\": [", words,
                   "]}");
  }
  traceNote("cublasLt", "heuristics",
            concat("{\"problem\": ", quoteForJson(problem.key().c_str()),
                   ", \"found\": [", list, "]}"));
}

const char *dtypeName(int32_t dtype) { return spell(ShxDType(dtype)); }

} // namespace

const CublasLtApi &cublasLt() {
  static const CublasLtApi api = loadCublasLt();
  return api;
}

void failCublasLt(cublasStatus_t status, const GemmProblem &p) {
  fail("cuBLASLt refuses the product ", p.columns, "×", p.k, " · ", p.k, "×",
       p.rows, " (", dtypeName(p.dtypeIn), ", result ", dtypeName(p.dtypeOut),
       p.batch > 1 ? concat(", batch of ", p.batch) : std::string(),
       "): ", cublasLt().cublasLtGetStatusName(status),
       "; CUBLASLT_LOG_LEVEL=1 tells more");
}

LtProduct::LtProduct(const GemmProblem &problem, const GemmOperands &operands,
                     bool fused)
    : problem(problem), operands(operands),
      fused(fused && problem.epilogue != SHX_EPILOGUE_NONE) {
  describeMatrices();
  describeProduct();
  if (this->fused && !addsAux())
    describeEpilogue();
}

LtProduct::~LtProduct() {
  const CublasLtApi &lt = cublasLt();
  for (cublasLtMatrixLayout_t layout : {left, right, result})
    if (layout)
      lt.cublasLtMatrixLayoutDestroy(layout);
  if (product)
    lt.cublasLtMatmulDescDestroy(product);
  if (preference)
    lt.cublasLtMatmulPreferenceDestroy(preference);
}

void LtProduct::describeMatrices() {
  const CublasLtApi &lt = cublasLt();
  auto matrix = [&](int32_t dtype, int64_t rows, int64_t columns, int64_t ld,
                    int64_t stride) {
    cublasLtMatrixLayout_t layout = nullptr;
    cublasStatus_t status = lt.cublasLtMatrixLayoutCreate(
        &layout, typeOf(dtype), uint64_t(rows), uint64_t(columns), ld);
    auto set = [&](cublasLtMatrixLayoutAttribute_t which, auto value) {
      if (status == CUBLAS_STATUS_SUCCESS)
        status = lt.cublasLtMatrixLayoutSetAttribute(layout, which, &value,
                                                     sizeof value);
    };
    if (problem.batch > 1) {
      set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(problem.batch));
      set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
    }
    if (status != CUBLAS_STATUS_SUCCESS)
      failCublasLt(status, problem);
    return layout;
  };
  const GemmProblem &p = problem;
  left = matrix(p.dtypeIn, p.transLeft ? p.k : p.rows,
                p.transLeft ? p.rows : p.k, p.ldLeft, p.strideLeft);
  right = matrix(p.dtypeRight, p.transRight ? p.columns : p.k,
                 p.transRight ? p.k : p.columns, p.ldRight, p.strideRight);
  result = matrix(p.dtypeOut, p.rows, p.columns, p.ldResult, p.strideResult);
}

void LtProduct::describeProduct() {
  const CublasLtApi &lt = cublasLt();
  cublasComputeType_t compute =
      problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasStatus_t status =
      lt.cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F);
  auto set = [&](cublasLtMatmulDescAttributes_t which, int32_t value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = lt.cublasLtMatmulDescSetAttribute(product, which, &value,
                                                 sizeof value);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA,
      problem.transLeft ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB,
      problem.transRight ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (isF8(problem.dtypeIn))
    describeSteps(status);
  // A kernel that keeps every processor busy to its end would take twice as
  // long beside a collective that has some of them.
  if (problem.processors > 0)
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, problem.processors);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = lt.cublasLtMatmulPreferenceCreate(&preference);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = lt.cublasLtMatmulPreferenceSetAttribute(preference, which,
                                                       &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         uint64_t(problem.workspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
         uint32_t(problem.alignLeft));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
         uint32_t(problem.alignRight));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         uint32_t(addsAux() ? problem.alignAux : problem.alignResult));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         uint32_t(problem.alignResult));
  if (status != CUBLAS_STATUS_SUCCESS)
    failCublasLt(status, problem);
}

// What an operand's numbers count. The library's left operand is our B.
void LtProduct::describeSteps(cublasStatus_t &status) {
  auto set = [&](cublasLtMatmulDescAttributes_t which, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLt().cublasLtMatmulDescSetAttribute(
          product, which, static_cast<const void *>(&value), sizeof value);
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.stepB);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.stepA);
  if (problem.rowSteps) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
        int32_t(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
        int32_t(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
  }
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t(problem.fastSums));
}

// The dtypes of bias and aux are the result's, which is what the library takes
// when none is named.
void LtProduct::describeEpilogue() {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  auto set = [&](cublasLtMatmulDescAttributes_t which, auto value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLt().cublasLtMatmulDescSetAttribute(
          product, which, static_cast<const void *>(&value), sizeof value);
  };
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(epilogueOf(problem)));
  if (problem.alignBias != 0)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (problem.alignAux != 0) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.ldResult);
  }
  if (status != CUBLAS_STATUS_SUCCESS)
    failCublasLt(status, problem);
}

std::vector<cublasLtMatmulAlgo_t> LtProduct::candidates(cublasLtHandle_t handle,
                                                        int count) const {
  std::vector<cublasLtMatmulHeuristicResult_t> found{size_t(count)};
  int returned = 0;
  cublasStatus_t status = cublasLt().cublasLtMatmulAlgoGetHeuristic(
      handle, product, left, right, result, result, preference, count,
      found.data(), &returned);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS)
    return algorithms;
  found.resize(size_t(returned));
  traceFound(problem, found);
  for (const cublasLtMatmulHeuristicResult_t &one : found)
    if (one.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(one.algo);
  return algorithms;
}

bool LtProduct::accepts(cublasLtHandle_t handle,
                        const cublasLtMatmulAlgo_t &algorithm) const {
  const CublasLtApi &lt = cublasLt();
  uint32_t reduction = 0;
  size_t written = 0;
  cublasLtMatmulHeuristicResult_t checked{};
  return lt.cublasLtMatmulAlgoConfigGetAttribute(
             &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
             sizeof reduction, &written) == CUBLAS_STATUS_SUCCESS &&
         (reduction & ~kReductions) == 0 &&
         lt.cublasLtMatmulAlgoCheck(handle, product, left, right, result,
                                    result, &algorithm,
                                    &checked) == CUBLAS_STATUS_SUCCESS &&
         checked.workspaceSize <= size_t(problem.workspaceBytes);
}

cublasStatus_t LtProduct::run(cublasLtHandle_t handle,
                              const cublasLtMatmulAlgo_t &algorithm,
                              const GemmOffset &offset, void *workspace,
                              CUstream_st *stream) const {
  const float alpha = 1, beta = problem.accumulate || addsAux() ? 1 : 0;
  auto at = [](const void *base, int64_t elements, int32_t dtype) {
    return static_cast<const uint8_t *>(base) + elements * bytesOf(dtype);
  };
  void *c = const_cast<uint8_t *>(at(operands.c, offset.c, problem.dtypeOut));
  return cublasLt().cublasLtMatmul(
      handle, product, &alpha, at(operands.b, offset.b, problem.dtypeIn), left,
      at(operands.a, offset.a, problem.dtypeRight), right, &beta,
      addsAux() ? operands.aux : c, result, c, result, &algorithm, workspace,
      size_t(problem.workspaceBytes), stream);
}

} // namespace shardonnx::rt::cuda
