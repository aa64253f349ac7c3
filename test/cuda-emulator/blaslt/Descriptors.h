// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lies behind cuBLASLt's opaque descriptors.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_DESCRIPTORS_H
#define SHARDONNX_TEST_CUDA_EMULATOR_DESCRIPTORS_H

#include <cstdint>
#include <cublasLt.h>
#include <string>

namespace shardonnx::emulator {

struct Layout {
  uint64_t rows, columns;
  int64_t ld, stride;
  uint32_t type;
  int32_t order, batch;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "");

struct Operation {
  int32_t compute, scale, pointerMode, transA, transB;
  uint32_t epilogue;
  void *bias, *aux;
  int64_t auxLd;
  /// -1 unless set.
  int32_t biasType, auxType;
  int64_t biasStride, auxStride;
  /// Of the device's processors, 0: all.
  int32_t processors;
  /// Of operands of 8 bits, on the device: one step, or one for each row.
  const float *stepA, *stepB;
  int32_t stepModeA, stepModeB;
  int8_t fastSums;
};
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t), "");

struct Preference {
  uint64_t workspace;
  uint32_t reductions;
  uint32_t align[4];
};
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t),
              "");

struct Algorithm {
  int32_t id, tile, splits, stages;
  uint32_t reduction, swizzle, custom;
  uint16_t inner, cluster;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t), "");

/// Stand-ins for the library's kernels.
enum AlgorithmId : int32_t {
  kAligned = 66, ///< operands and leading dimensions of whole 16 bytes
  kGeneral = 21, ///< any
  kSplit = 24    ///< parts of the sum meet in the workspace
};

inline Layout &layoutOf(cublasLtMatrixLayout_t d) {
  return *reinterpret_cast<Layout *>(d);
}
inline Operation &operationOf(cublasLtMatmulDesc_t d) {
  return *reinterpret_cast<Operation *>(d);
}
inline Preference &preferenceOf(cublasLtMatmulPreference_t d) {
  return *reinterpret_cast<Preference *>(d);
}
inline Algorithm &algorithmOf(cublasLtMatmulAlgo_t *a) {
  return *reinterpret_cast<Algorithm *>(a);
}

/// A multiplication that was asked for, with everything it needs.
struct Multiplication {
  Operation operation;
  Layout a, b, c, d;
  float alpha, beta;
  uint64_t pa, pb, pc, pd, workspace;
  size_t workspaceBytes;
  Algorithm algorithm;
};

unsigned bytesOf(uint32_t type);
bool isF8(uint32_t type);
bool isGelu(uint32_t epilogue);
bool hasAux(uint32_t epilogue);
bool hasBias(uint32_t epilogue);
bool hasBiasGradient(uint32_t epilogue);

/// Does the library have this multiplication? Says why not in `why`.
cublasStatus_t checkProblem(const Operation &operation, const Layout &a,
                            const Layout &b, const Layout &c, const Layout &d,
                            std::string &why);
/// Bytes of workspace the algorithm needs, and whether it takes the problem.
size_t workspaceOf(const Algorithm &algorithm, const Layout &d);
bool takesLayouts(const Algorithm &algorithm, const Layout &a, const Layout &b,
                  const Layout &c, const Layout &d);

/// Runs it (on a stream's thread); false after a message.
bool multiply(const Multiplication &m);

void complain(const std::string &what);

} // namespace shardonnx::emulator

#endif
