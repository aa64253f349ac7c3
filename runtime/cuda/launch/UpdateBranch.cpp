// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See UpdateBranch.h.

#include "UpdateBranch.h"
#include <utility>

namespace shardonnx::rt::cuda {

// A capture that was refused leaves nothing to wait for.
void UpdateBranch::run(const std::function<void()> &optimizers,
                       const std::function<void()> &beside) {
  CUstream compute = context.compute;
  try {
    fork(optimizers);
    context.compute = compute;
    beside();
  } catch (...) {
    context.compute = compute;
    forget();
    throw;
  }
  join();
}

void UpdateBranch::fork(const std::function<void()> &optimizers) {
  if (context.preparing())
    return optimizers();
  begun.event.record(context.compute);
  begun.event.wait(stream);
  context.compute = stream;
  optimizers();
  end.event.record(stream);
  end.isOpen = true;
}

// An update that is no branch is on the compute stream.
void UpdateBranch::updated(size_t unit) {
  if (context.preparing() || context.compute != stream)
    return;
  units[unit].event.record(stream);
  units[unit].isOpen = true;
}

void UpdateBranch::wait(size_t unit) {
  if (end.isOpen && std::exchange(units[unit].isOpen, false))
    units[unit].event.wait(context.compute);
}

void UpdateBranch::join() {
  if (end.isOpen)
    end.event.wait(context.compute);
  forget();
}

void UpdateBranch::forget() {
  end.isOpen = false;
  for (Point &point : units)
    point.isOpen = false;
}

} // namespace shardonnx::rt::cuda
