// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuBLASLt as a table of functions, loaded when the first product is prepared,
// and the descriptors that it wants for a product. <cublasLt.h> gives the types
// only: nothing of the library is linked.

#ifndef SHARDONNX_RUNTIME_CUDA_CUBLASLT_H
#define SHARDONNX_RUNTIME_CUDA_CUBLASLT_H

#include "GemmCache.h"
#include "GemmProblem.h"
#include <cublasLt.h>
#include <vector>

/// Every function of the library that this runtime calls.
#define SHX_CUBLASLT_FUNCTIONS(X)                                              \
  X(cublasLtCreate)                                                            \
  X(cublasLtDestroy)                                                           \
  X(cublasLtGetStatusName)                                                     \
  X(cublasLtGetVersion)                                                        \
  X(cublasLtMatmul)                                                            \
  X(cublasLtMatmulAlgoCheck)                                                   \
  X(cublasLtMatmulAlgoConfigGetAttribute)                                      \
  X(cublasLtMatmulAlgoGetHeuristic)                                            \
  X(cublasLtMatmulDescCreate)                                                  \
  X(cublasLtMatmulDescDestroy)                                                 \
  X(cublasLtMatmulDescSetAttribute)                                            \
  X(cublasLtMatmulPreferenceCreate)                                            \
  X(cublasLtMatmulPreferenceDestroy)                                           \
  X(cublasLtMatmulPreferenceSetAttribute)                                      \
  X(cublasLtMatrixLayoutCreate)                                                \
  X(cublasLtMatrixLayoutDestroy)                                               \
  X(cublasLtMatrixLayoutSetAttribute)

namespace shardonnx::rt::cuda {

struct CublasLtApi {
/// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares the name.
#define SHX_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  SHX_CUBLASLT_FUNCTIONS(SHX_CUBLASLT_MEMBER)
#undef SHX_CUBLASLT_MEMBER
};

/// Loaded by the first call; throws an Error that says where it was looked for.
const CublasLtApi &cublasLt();

/// The library's descriptors of a problem. With `fused` the library does the
/// epilogue, else it gives the plain product.
class LtProduct {
public:
  LtProduct(const GemmProblem &problem, const GemmOperands &operands,
            bool fused);
  ~LtProduct();
  LtProduct(const LtProduct &) = delete;
  LtProduct &operator=(const LtProduct &) = delete;

  /// Up to `count` algorithms, best first as the library guesses. All give the
  /// same bits in every run: parts of a sum are added in f32, in one order.
  std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t handle,
                                               int count) const;
  /// Whether the algorithm, which may come from a file, solves the problem in
  /// the workspace that there is.
  bool accepts(cublasLtHandle_t handle,
               const cublasLtMatmulAlgo_t &algorithm) const;
  /// Enqueues the product of the operands at `offset`.
  cublasStatus_t run(cublasLtHandle_t handle,
                     const cublasLtMatmulAlgo_t &algorithm,
                     const GemmOffset &offset, void *workspace,
                     CUstream_st *stream) const;

private:
  void describeMatrices();
  void describeProduct();
  void describeSteps(cublasStatus_t &status);
  void describeEpilogue();
  /// Whether the library's C is not its D, but what is added to the product.
  bool addsAux() const { return fused && problem.addsAux(); }

  GemmProblem problem;
  GemmOperands operands;
  bool fused;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
};

/// Throws an Error that names the problem and the library's status.
[[noreturn]] void failCublasLt(cublasStatus_t status,
                               const GemmProblem &problem);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_CUBLASLT_H
