// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products: shx_gemm, shx_gemm_epilogue, and the products of other
// calls. While a program is prepared its problems are collected; tune() then
// settles an algorithm for each, on rank 0 for all ranks, from the cache file
// or by timing; from then on a product is enqueued with what was settled.

#ifndef SHARDONNX_RUNTIME_CUDA_GEMM_H
#define SHARDONNX_RUNTIME_CUDA_GEMM_H

#include "../launch/Context.h"
#include "CublasLt.h"
#include <memory>
#include <set>
#include <unordered_map>

namespace shardonnx::rt::cuda {

class Gemm {
public:
  /// `cacheFolder` is where algorithms are kept from run to run; empty:
  /// nowhere.
  Gemm(Context &context, const std::string &cacheFolder);
  ~Gemm();
  Gemm(const Gemm &) = delete;
  Gemm &operator=(const Gemm &) = delete;

  /// The product of `desc`, whose dtypes are the library's, with `bytes` of
  /// workspace. Prepares or enqueues it, as the context's mode says.
  void multiply(const ShxGemm &desc, const GemmOperands &operands,
                void *workspace, int64_t bytes);

  /// Whether tune() will time products here, on what their operands hold then.
  bool willTime();
  /// Settles what was prepared since; every rank calls it. Overwrites results.
  void tune();

  /// Choices made by asking or timing the library, rather than found in the
  /// cache file.
  int64_t chosenAnew() const { return anew; }

private:
  struct Pending {
    std::string key;
    GemmProblem problem;
    GemmOperands operands;
    GemmOffset offset;
    void *workspace;
    bool mayTime; // SHX_GEMM_DETERMINISTIC: the same choice in every run
  };

  GemmCache &cache();
  const GemmChoice &choiceOf(const std::string &key, const GemmProblem &problem,
                             const GemmOperands &operands);
  GemmChoice settle(const Pending &pending);
  bool accepts(const Pending &pending, const GemmChoice &choice) const;
  GemmChoice firstOf(const GemmProblem &problem, const GemmOperands &operands);
  GemmChoice fastestOf(const Pending &pending);
  void runOnce(const Pending &pending, const GemmChoice &choice);
  double timeOf(const Pending &pending, const LtProduct &product,
                const GemmChoice &choice, double best);
  cublasStatus_t enqueue(const LtProduct &product, const GemmProblem &problem,
                         const GemmOperands &operands, const GemmChoice &choice,
                         const GemmOffset &offset, void *workspace);
  void clearResult(const GemmProblem &problem, const GemmOperands &operands,
                   const GemmOffset &offset);
  cublasLtHandle_t library();

  Context &context;
  std::string cacheFolder;
  cublasLtHandle_t handle = nullptr;
  std::unique_ptr<GemmCache> file;
  std::unordered_map<std::string, GemmChoice> choices;
  std::vector<Pending> pending;
  std::set<std::string> known; // keys of `pending`
  int64_t anew = 0;
};

/// C = A·B of any dtypes that the ABI has, converted in the workspace where the
/// library needs it; the workspace has planGemm(desc).bytes. For the ABI's
/// calls and for those that contain products.
void gemm(Context &context, const ShxGemm &desc, const GemmOperands &operands,
          void *workspace);
inline void gemm(Context &context, const ShxGemm &desc, const void *a,
                 const void *b, void *c, void *workspace) {
  gemm(context, desc, GemmOperands{a, b, c, nullptr, nullptr}, workspace);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_GEMM_H
