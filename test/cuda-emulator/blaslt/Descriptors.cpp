// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptors of cuBLASLt: creation, attributes, names of errors.

#include "Descriptors.h"
#include <cstdio>
#include <cstring>

using namespace shardonnx::emulator;

void shardonnx::emulator::complain(const std::string &what) {
  std::fprintf(stderr, "cuda emulator: cuBLASLt: %s\n", what.c_str());
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return 130000; }
size_t cublasLtGetCudartVersion() { return 13000; }

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(name)                                                             \
  case name:                                                                   \
    return #name
    NAME(CUBLAS_STATUS_SUCCESS);
    NAME(CUBLAS_STATUS_NOT_INITIALIZED);
    NAME(CUBLAS_STATUS_ALLOC_FAILED);
    NAME(CUBLAS_STATUS_INVALID_VALUE);
    NAME(CUBLAS_STATUS_ARCH_MISMATCH);
    NAME(CUBLAS_STATUS_MAPPING_ERROR);
    NAME(CUBLAS_STATUS_EXECUTION_FAILED);
    NAME(CUBLAS_STATUS_INTERNAL_ERROR);
    NAME(CUBLAS_STATUS_NOT_SUPPORTED);
    NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef NAME
  }
  return "unknown cublas status";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtLoggerSetLevel(int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerForceDisable() { return CUBLAS_STATUS_SUCCESS; }

// Matrix layouts.

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t size, cudaDataType type,
                                                 uint64_t rows,
                                                 uint64_t columns, int64_t ld) {
  if (size < sizeof(Layout))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(static_cast<void *>(layout), 0, size);
  Layout &made = layoutOf(layout);
  made.rows = rows;
  made.columns = columns;
  made.ld = ld;
  made.type = type;
  made.order = CUBLASLT_ORDER_COL;
  made.batch = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  return cublasLtMatrixLayoutInit_internal(*layout, sizeof **layout, type, rows,
                                           columns, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {
/// An attribute's place in a descriptor; empty for one that is not emulated.
struct Field {
  void *place;
  size_t bytes;
};

template <class T> Field field(T &value) { return {&value, sizeof value}; }

cublasStatus_t set(Field to, const void *from, size_t bytes, int attribute) {
  if (!to.place) {
    complain("attribute " + std::to_string(attribute) + " is not emulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!from || bytes != to.bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to.place, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get(Field from, void *to, size_t bytes, size_t *written) {
  if (!from.place)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (written)
    *written = from.bytes;
  if (!to || bytes == 0)
    return written ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != from.bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, from.place, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Field fieldOf(Layout &l, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return field(l.type);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return field(l.order);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return field(l.rows);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return field(l.columns);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return field(l.ld);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return field(l.batch);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return field(l.stride);
  default:
    return {nullptr, 0};
  }
}

Field fieldOf(Operation &o, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return field(o.compute);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return field(o.scale);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return field(o.pointerMode);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return field(o.transA);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return field(o.transB);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return field(o.epilogue);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return field(o.bias);
  case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
    return field(o.biasStride);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return field(o.biasType);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return field(o.aux);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return field(o.auxLd);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
    return field(o.auxStride);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return field(o.auxType);
  case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    return field(o.processors);
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return field(o.stepA);
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return field(o.stepB);
  case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    return field(o.stepModeA);
  case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    return field(o.stepModeB);
  case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
    return field(o.fastSums);
  default:
    return {nullptr, 0};
  }
}

Field fieldOf(Preference &p, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return field(p.workspace);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return field(p.reductions);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return field(p.align[0]);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return field(p.align[1]);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return field(p.align[2]);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return field(p.align[3]);
  default:
    return {nullptr, 0};
  }
}

Field fieldOf(Algorithm &a, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  switch (attribute) {
  case CUBLASLT_ALGO_CONFIG_ID:
    return field(a.id);
  case CUBLASLT_ALGO_CONFIG_TILE_ID:
    return field(a.tile);
  case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
    return field(a.splits);
  case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
    return field(a.reduction);
  case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    return field(a.swizzle);
  case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
    return field(a.custom);
  case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    return field(a.stages);
  case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    return field(a.inner);
  case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
    return field(a.cluster);
  default:
    return {nullptr, 0};
  }
}
} // namespace

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *from, size_t bytes) {
  return set(fieldOf(layoutOf(layout), attribute), from, bytes, attribute);
}

cublasStatus_t
cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 void *to, size_t bytes, size_t *written) {
  return get(fieldOf(layoutOf(layout), attribute), to, bytes, written);
}

// Operations.

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation,
                                               size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  if (size < sizeof(Operation))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(static_cast<void *>(operation), 0, size);
  Operation &made = operationOf(operation);
  made.compute = compute;
  made.scale = scale;
  made.pointerMode = CUBLASLT_POINTER_MODE_HOST;
  made.transA = made.transB = CUBLAS_OP_N;
  made.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  made.biasType = made.auxType = -1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *operation = new cublasLtMatmulDescOpaque_t;
  return cublasLtMatmulDescInit_internal(*operation, sizeof **operation,
                                         compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *from, size_t bytes) {
  return set(fieldOf(operationOf(operation), attribute), from, bytes,
             attribute);
}

cublasStatus_t
cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t operation,
                               cublasLtMatmulDescAttributes_t attribute,
                               void *to, size_t bytes, size_t *written) {
  return get(fieldOf(operationOf(operation), attribute), to, bytes, written);
}

// Preferences.

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                      size_t size) {
  if (size < sizeof(Preference))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(static_cast<void *>(preference), 0, size);
  Preference &made = preferenceOf(preference);
  made.reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  for (uint32_t &align : made.align)
    align = 256;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return cublasLtMatmulPreferenceInit_internal(*preference,
                                               sizeof **preference);
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *from,
    size_t bytes) {
  return set(fieldOf(preferenceOf(preference), attribute), from, bytes,
             attribute);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, void *to, size_t bytes,
    size_t *written) {
  return get(fieldOf(preferenceOf(preference), attribute), to, bytes, written);
}

// Algorithms.

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(
    cublasLtMatmulAlgo_t *algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, const void *from,
    size_t bytes) {
  return set(fieldOf(algorithmOf(algorithm), attribute), from, bytes,
             attribute);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *to, size_t bytes,
    size_t *written) {
  cublasLtMatmulAlgo_t copy = *algorithm;
  return get(fieldOf(algorithmOf(&copy), attribute), to, bytes, written);
}
