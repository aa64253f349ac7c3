// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizers of a step as work beside the next step's first microbatch:
// what reads a unit's parameters waits for that unit's optimizer alone.

#ifndef SHARDONNX_RUNTIME_CUDA_UPDATEBRANCH_H
#define SHARDONNX_RUNTIME_CUDA_UPDATEBRANCH_H

#include "Context.h"
#include <functional>
#include <vector>

namespace shardonnx::rt::cuda {

class UpdateBranch {
public:
  UpdateBranch(Context &context, size_t units)
      : context(context), stream(Priority::Background), units(units) {}

  /// Issues the optimizers on a stream of their own, which is context.compute
  /// meanwhile, behind what the compute stream has so far; then what they run
  /// beside, behind which the compute stream has waited for all of them.
  void run(const std::function<void()> &optimizers,
           const std::function<void()> &beside);
  /// The unit's optimizer has been issued.
  void updated(size_t unit);
  /// The compute stream waits for a unit's optimizer, or for all of them, once.
  /// Where none runs beside it there is nothing to wait for.
  void wait(size_t unit);
  void join();

  operator CUstream() const { return stream; }

private:
  struct Point {
    Event event;
    bool isOpen = false; // recorded, and not waited for
  };
  void fork(const std::function<void()> &optimizers);
  void forget();

  Context &context;
  Stream stream;
  Point begun, end;
  std::vector<Point> units;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_UPDATEBRANCH_H
