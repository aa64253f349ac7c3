// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which multiplications there are, which algorithms, and how they are put on
// a stream.

#include "Descriptors.h"
#include "driver/Hooks.h"
#include <algorithm>
#include <cstring>
#include <driver_types.h>

using namespace shardonnx::emulator;

unsigned shardonnx::emulator::bytesOf(uint32_t type) {
  return type == CUDA_R_32F                          ? 4
         : type == CUDA_R_16F || type == CUDA_R_16BF ? 2
         : isF8(type)                                ? 1
                                                     : 0;
}

bool shardonnx::emulator::isF8(uint32_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

bool shardonnx::emulator::isGelu(uint32_t epilogue) { return epilogue & 32; }
bool shardonnx::emulator::hasAux(uint32_t epilogue) { return epilogue & 128; }
bool shardonnx::emulator::hasBias(uint32_t epilogue) { return epilogue & 4; }
bool shardonnx::emulator::hasBiasGradient(uint32_t epilogue) {
  return epilogue & (16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
}

static bool knownEpilogue(uint32_t epilogue) {
  switch (epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DGELU:
  case CUBLASLT_EPILOGUE_DGELU_BGRAD:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    return true;
  default:
    return false;
  }
}

/// What the documentation asks of operands of 8 bits.
static const char *checkF8(const Operation &o, const Layout &a, const Layout &b,
                           const Layout &c, const Layout &d) {
  if (!isF8(a.type) || !isF8(b.type))
    return "one operand alone has 8 bits";
  if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2)
    return "both operands are E5M2";
  if (o.transA != CUBLAS_OP_T || o.transB != CUBLAS_OP_N)
    return "operands of 8 bits are multiplied as A transposed (TN)";
  for (const Layout *l : {&a, &b, &c, &d})
    if (l->ld * bytesOf(l->type) % 16)
      return "a leading dimension of a product of 8 bits is no multiple of 16 "
             "bytes";
  if (a.rows % 16 || d.rows % 16)
    return "sizes of a product of 8 bits are no multiples of 16";
  if (d.type == CUDA_R_32F && o.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return "a product of 8 bits with an f32 result has no bias of f32";
  if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      o.epilogue != CUBLASLT_EPILOGUE_BIAS)
    return "this epilogue of a product of 8 bits is not emulated";
  if (o.stepModeA != o.stepModeB ||
      (o.stepModeA != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
       o.stepModeA != CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F))
    return "scales are one for each operand, or one for each row of both";
  return d.batch > 1 ? "batched products of 8 bits are not emulated" : nullptr;
}

static const char *checkTypes(const Operation &o, const Layout &a,
                              const Layout &b, const Layout &c,
                              const Layout &d) {
  if (o.scale != CUDA_R_32F || (o.compute != CUBLAS_COMPUTE_32F &&
                                o.compute != CUBLAS_COMPUTE_32F_FAST_TF32))
    return "only f32 (or TF32) computing with f32 scales is emulated";
  if (c.type == d.type && (isF8(a.type) || isF8(b.type)))
    return isF8(d.type) ? "a result of 8 bits is not emulated"
                        : checkF8(o, a, b, c, d);
  if (o.stepA || o.stepB)
    return "scales are for operands of 8 bits";
  if (a.type != b.type)
    return "A and B have different types";
  if (c.type != d.type)
    return "C and D have different types";
  if (!bytesOf(a.type) || !bytesOf(d.type))
    return "only f32, f16 and bf16 are emulated";
  if (d.type != a.type && d.type != CUDA_R_32F)
    return "D must have the type of A or f32";
  if (a.type != CUDA_R_32F && o.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    return "TF32 is for f32 operands";
  return nullptr;
}

static const char *checkEpilogue(const Operation &o, const Layout &d) {
  if (!knownEpilogue(o.epilogue))
    return "this epilogue is not emulated";
  int32_t type = static_cast<int32_t>(d.type);
  if ((o.biasType != -1 && o.biasType != type) ||
      (o.auxType != -1 && o.auxType != type))
    return "bias and aux must have D's type";
  bool bias = hasBias(o.epilogue) || hasBiasGradient(o.epilogue);
  if (bias && reinterpret_cast<uintptr_t>(o.bias) % 16)
    return "the bias is not aligned to 16 bytes";
  if (!hasAux(o.epilogue))
    return d.batch > 1 && hasBiasGradient(o.epilogue)
               ? "batched bias gradients are not emulated"
               : nullptr;
  if (o.auxLd % 8 || o.auxLd < static_cast<int64_t>(d.rows))
    return "the aux leading dimension must be a multiple of 8 and at least "
           "D's rows";
  if (reinterpret_cast<uintptr_t>(o.aux) % 16)
    return "aux is not aligned to 16 bytes";
  return d.batch > 1 ? "batched aux is not emulated" : nullptr;
}

static bool ldFits(const Layout &l) {
  return l.ld >= static_cast<int64_t>(l.rows) && l.ld > 0;
}

cublasStatus_t
shardonnx::emulator::checkProblem(const Operation &o, const Layout &a,
                                  const Layout &b, const Layout &c,
                                  const Layout &d, std::string &why) {
  auto refuse = [&](cublasStatus_t status, const char *text) {
    why = text;
    return status;
  };
  uint64_t m = o.transA ? a.columns : a.rows, k = o.transA ? a.rows : a.columns;
  uint64_t kb = o.transB ? b.columns : b.rows,
           n = o.transB ? b.rows : b.columns;
  if (m != d.rows || n != d.columns || k != kb || c.rows != d.rows ||
      c.columns != d.columns)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the shapes do not fit");
  if (!m || !n || !k)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an empty matrix");
  if (!ldFits(a) || !ldFits(b) || !ldFits(c) || !ldFits(d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "a leading dimension is less than the rows");
  for (const Layout *l : {&a, &b, &c, &d})
    if (l->order != CUBLASLT_ORDER_COL || l->batch != d.batch)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                    "only column-major layouts of one batch count");
  if (o.pointerMode != CUBLASLT_POINTER_MODE_HOST)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "only scales in host memory are emulated");
  if (const char *text = checkTypes(o, a, b, c, d))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, text);
  if (const char *text = checkEpilogue(o, d))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, text);
  return CUBLAS_STATUS_SUCCESS;
}

size_t shardonnx::emulator::workspaceOf(const Algorithm &algorithm,
                                        const Layout &d) {
  if (algorithm.id != kSplit)
    return 0;
  return d.rows * d.columns * 4 * static_cast<size_t>(algorithm.splits);
}

bool shardonnx::emulator::takesLayouts(const Algorithm &algorithm,
                                       const Layout &a, const Layout &b,
                                       const Layout &c, const Layout &d) {
  if (algorithm.id == kSplit)
    return d.batch == 1;
  if (algorithm.id == kGeneral)
    return true;
  bool whole = algorithm.id == kAligned;
  for (const Layout *l : {&a, &b, &c, &d})
    whole = whole && l->ld * bytesOf(l->type) % 16 == 0 &&
            l->stride * bytesOf(l->type) % 16 == 0;
  return whole;
}

static Algorithm makeAlgorithm(int32_t id) {
  Algorithm made{};
  made.id = id;
  made.tile = id == kAligned ? CUBLASLT_MATMUL_TILE_128x128
                             : CUBLASLT_MATMUL_TILE_64x64;
  made.splits = id == kSplit ? 2 : 1;
  made.stages = 4;
  made.reduction = id == kSplit ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                : CUBLASLT_REDUCTION_SCHEME_NONE;
  return made;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  *found = 0;
  if (wanted <= 0 || !preference)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::string why;
  const Preference &limits = preferenceOf(preference);
  if (cublasStatus_t status =
          checkProblem(operationOf(operation), layoutOf(a), layoutOf(b),
                       layoutOf(c), layoutOf(d), why)) {
    complain("no algorithm: " + why);
    return status;
  }
  for (int32_t id : {kAligned, kGeneral, kSplit}) {
    Algorithm made = makeAlgorithm(id);
    bool aligned = std::all_of(limits.align, limits.align + 4,
                               [](uint32_t align) { return align >= 16; });
    if (*found == wanted || (id == kAligned && !aligned) ||
        (made.reduction && !(made.reduction & limits.reductions)) ||
        workspaceOf(made, layoutOf(d)) > limits.workspace ||
        !takesLayouts(made, layoutOf(a), layoutOf(b), layoutOf(c), layoutOf(d)))
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*found)++];
    std::memset(&result, 0, sizeof result);
    algorithmOf(&result.algo) = made;
    result.workspaceSize = workspaceOf(made, layoutOf(d));
    result.wavesCount = 1;
  }
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t,
                                        cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, int wanted, int ids[],
                                        int *found) {
  const int known[] = {kAligned, kGeneral, kSplit};
  *found = std::min(wanted, 3);
  std::copy(known, known + *found, ids);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t,
                                      cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t *algorithm) {
  if (id != kAligned && id != kGeneral && id != kSplit)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(algorithm, 0, sizeof *algorithm);
  algorithmOf(algorithm) = makeAlgorithm(id);
  return CUBLAS_STATUS_SUCCESS;
}

static bool knownAlgorithm(const Algorithm &a) {
  return (a.id == kAligned || a.id == kGeneral || a.id == kSplit) &&
         a.splits > 0 && a.splits <= 64;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        const cublasLtMatmulAlgo_t *algorithm,
                        cublasLtMatmulHeuristicResult_t *result) {
  std::string why;
  cublasLtMatmulAlgo_t copy = *algorithm;
  const Algorithm &asked = algorithmOf(&copy);
  cublasStatus_t status =
      checkProblem(operationOf(operation), layoutOf(a), layoutOf(b),
                   layoutOf(c), layoutOf(d), why);
  if (!knownAlgorithm(asked))
    status = CUBLAS_STATUS_INVALID_VALUE;
  else if (!status && !takesLayouts(asked, layoutOf(a), layoutOf(b),
                                    layoutOf(c), layoutOf(d)))
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (status)
    return status;
  result->algo = copy;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->workspaceSize = workspaceOf(asked, layoutOf(d));
  result->wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/// What only a real call shows: pointers and the workspace.
static const char *checkCall(const Multiplication &m) {
  const Algorithm &algorithm = m.algorithm;
  if (!knownAlgorithm(algorithm) ||
      !takesLayouts(algorithm, m.a, m.b, m.c, m.d))
    return "the algorithm does not take these layouts";
  if (workspaceOf(algorithm, m.d) > m.workspaceBytes)
    return "the algorithm needs a larger workspace";
  uint64_t elements =
      (m.pa | m.pb) % bytesOf(m.a.type) | (m.pc | m.pd) % bytesOf(m.d.type);
  if (elements)
    return "an operand is not aligned to its elements";
  if (isF8(m.a.type) && (m.pa | m.pb | m.pc | m.pd) % 16)
    return "an operand of a product of 8 bits is not aligned to 16 bytes";
  if (isF8(m.a.type) && (!m.operation.stepA || !m.operation.stepB))
    return "a product of 8 bits has no scales";
  // So says cuBLASLt 13.1 on an H100, if the scales are those of tensors.
  auto bits = [](const float *step) {
    return reinterpret_cast<uintptr_t>(step);
  };
  if (isF8(m.a.type) &&
      (bits(m.operation.stepA) | bits(m.operation.stepB)) % 16)
    return "a scale of an operand is not aligned to 16 bytes";
  if (algorithm.id == kAligned && (m.pa | m.pb | m.pc | m.pd) % 16)
    return "the algorithm was chosen for operands aligned to 16 bytes";
  if (m.workspaceBytes && m.workspace % 256)
    return "the workspace is not aligned to 256 bytes";
  bool same = m.pc == m.pd && m.beta != 0;
  if (same && (m.c.ld != m.d.ld || m.c.stride != m.d.stride))
    return "C is D with another layout";
  uint32_t epilogue = m.operation.epilogue;
  if ((hasBias(epilogue) || hasBiasGradient(epilogue)) && !m.operation.bias)
    return "the epilogue needs a bias pointer";
  if (hasAux(epilogue) && !m.operation.aux)
    return "the epilogue needs an aux pointer";
  return nullptr;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t cLayout, void *d,
               cublasLtMatrixLayout_t dLayout,
               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
               size_t workspaceBytes, cudaStream_t stream) {
  if (!handle || !operation || !alpha || !beta || !a || !b || !d)
    return CUBLAS_STATUS_INVALID_VALUE;
  auto *m = new Multiplication{operationOf(operation),
                               layoutOf(aLayout),
                               layoutOf(bLayout),
                               layoutOf(cLayout),
                               layoutOf(dLayout),
                               *static_cast<const float *>(alpha),
                               *static_cast<const float *>(beta),
                               reinterpret_cast<uint64_t>(a),
                               reinterpret_cast<uint64_t>(b),
                               reinterpret_cast<uint64_t>(c),
                               reinterpret_cast<uint64_t>(d),
                               reinterpret_cast<uint64_t>(workspace),
                               workspaceBytes,
                               makeAlgorithm(kGeneral)};
  if (algorithm) {
    cublasLtMatmulAlgo_t copy = *algorithm;
    m->algorithm = algorithmOf(&copy);
  }
  std::string why;
  cublasStatus_t status =
      checkProblem(m->operation, m->a, m->b, m->c, m->d, why);
  if (!status)
    if (const char *text = checkCall(*m)) {
      why = text;
      status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
  if (status) {
    complain("cublasLtMatmul: " + why);
    delete m;
    return status;
  }
  CUresult result = shardonnxEmulatorEnqueue(
      reinterpret_cast<CUstream>(stream), "cublasLtMatmul",
      [](void *p) {
        return multiply(*static_cast<Multiplication *>(p))
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_ILLEGAL_ADDRESS;
      },
      m, [](void *p) { delete static_cast<Multiplication *>(p); });
  return result ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
