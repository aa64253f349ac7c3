// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention on CUDA: cuDNN where it computes what the descriptor says, else
// kernels of our own. Plans are made while a program is prepared.

#ifndef SHARDONNX_RUNTIME_CUDA_ATTENTION_H
#define SHARDONNX_RUNTIME_CUDA_ATTENTION_H

#include "../launch/Context.h"
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace shardonnx::rt::cuda {

class CudnnPlan;
struct CudnnOperands;

/// cuDNN's plans, one for each descriptor and direction.
class Attention {
public:
  explicit Attention(Context &context);
  ~Attention();
  Attention(const Attention &) = delete;
  Attention &operator=(const Attention &) = delete;

  /// Whether cuDNN does it. When preparing, a plan runs once when it is made.
  bool run(const ShxAttention &desc, bool grad, bool hasMask,
           const CudnnOperands &operands, void *workspace);

  /// Makes a plan, as makeCudnnPlan does; for tests.
  using Planner = std::function<std::unique_ptr<CudnnPlan>(
      const ShxAttention &desc, bool grad, int64_t workspaceBytes,
      std::string &refusal)>;
  void setPlanner(Planner other) { planner = std::move(other); }

  /// Whether cuDNN does documents of this program.
  bool takesDocuments() const { return documents; }

private:
  std::unique_ptr<CudnnPlan> makePlan(const ShxAttention &desc, bool grad);
  std::unique_ptr<CudnnPlan> askCudnn(const ShxAttention &desc, bool grad,
                                      int64_t workspaceBytes,
                                      std::string &refusal);
  std::string runPlan(CudnnPlan &plan, const ShxAttention &desc, bool grad,
                      CudnnOperands operands, void *workspace);
  void warn(const std::string &refusal);

  Context &context;
  void *handle = nullptr; // cuDNN's; made when it is first needed
  bool dead = false;      // cuDNN is not there, or does not start
  bool documents = false;
  Planner planner;
  /// By the bytes of the descriptor; null: cuDNN has no plan.
  std::map<std::string, std::unique_ptr<CudnnPlan>> plans;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ATTENTION_H
