// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collectives of one rank: what the update has written is gathered, but for
// what is offloaded; its reductions are sums over microbatches, all on the
// compute stream.

#ifndef SHARDONNX_RUNTIME_CUDA_SINGLERANK_H
#define SHARDONNX_RUNTIME_CUDA_SINGLERANK_H

#include "../launch/Context.h"

namespace shardonnx::rt::cuda {

class SingleRank : public Collectives {
public:
  explicit SingleRank(Context &context) : context(context) {}

  Allocator &symmetric() override { return driverAllocator(); }
  void gatherStart(size_t unit) override;
  void gatherWait(size_t) override {}
  void gatherFree(size_t) override {}
  void gradAcquire(size_t) override {}
  void reduceStart(size_t unit, bool accumulate) override;
  void reduceWait(size_t) override {}
  void beginFunction() override {}
  void endFunction() override {}
  void allGather(const double *mine, double *all, size_t count) override;
  void broadcast(void *, size_t) override {}

private:
  Context &context;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_SINGLERANK_H
