// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by cuDNN: a graph for each descriptor and direction, the plan that
// cuDNN makes of it, and its execution. The only file that sees cuDNN is
// CudnnAttention.cpp. Nothing here throws: a refusal is a sentence.

#ifndef SHARDONNX_RUNTIME_CUDA_CUDNNATTENTION_H
#define SHARDONNX_RUNTIME_CUDA_CUDNNATTENTION_H

#include "../driver/Driver.h"
#include "../launch/Documents.h"
#include "shardonnx/runtime/ABI.h"
#include <memory>
#include <string>

namespace shardonnx::rt::cuda {

/// What plans are made for: the GPU that a handle belongs to, or one that is
/// only described, in cuDNN's own JSON.
struct CudnnTarget {
  void *handle = nullptr; // cudnnHandle_t
  std::string description;
  int arch = 0; // 90: sm_90
};

struct CudnnOperands {
  const void *q, *k, *v;
  void *out;                      // forward writes, backward reads
  float *lse;                     // likewise
  const void *dout;               // backward
  void *dq, *dk, *dv;             // backward
  Documents *documents = nullptr; // where the descriptor has some
};

class CudnnPlan {
public:
  virtual ~CudnnPlan() = default;
  virtual int64_t workspaceBytes() const = 0;
  virtual std::string name() const = 0; // cuDNN's, for tests
  /// Enqueues it on the handle's stream; returns what went wrong, or nothing.
  virtual std::string run(const CudnnOperands &operands, void *workspace) = 0;
};

/// The first of cuDNN's plans that needs no more than this workspace; null with
/// the reason when there is none.
std::unique_ptr<CudnnPlan> makeCudnnPlan(const ShxAttention &desc, bool grad,
                                         const CudnnTarget &target,
                                         int64_t workspaceBytes,
                                         std::string &refusal);

/// Loads the library, once; returns why it cannot be used, or nothing.
const std::string &loadCudnn();
/// 91900: 9.19.0
int64_t cudnnVersion();

/// A handle for the current context, enqueueing on `stream`; null with the
/// reason when cuDNN does not start.
void *makeCudnnHandle(CUstream stream, std::string &refusal);
void endCudnnHandle(void *handle);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_CUDNNATTENTION_H
