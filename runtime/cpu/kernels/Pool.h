// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rank's one thread pool (OpenMP's, shared with the GEMM library), the
// scratch that each of its threads keeps, and the trace of what ran on it.

#ifndef SHARDONNX_RUNTIME_CPU_POOL_H
#define SHARDONNX_RUNTIME_CPU_POOL_H

#include "shardonnx/runtime/Cpu.h"
#include <cstdint>
#include <omp.h>

namespace shardonnx::rt {

/// What a thread of the pool does of a call, from its making to its end, for
/// the trace, if there is one.
class ThreadSpan {
public:
  ThreadSpan();
  ~ThreadSpan();
  ThreadSpan(const ThreadSpan &) = delete;
  ThreadSpan &operator=(const ThreadSpan &) = delete;

private:
  int64_t begin = 0; // 0: no trace
};

/// As many threads as a parallel loop from here would have.
inline int64_t freeThreads() {
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

/// Calls body(i) for i in [0, count), each once, on any thread in any order.
/// Inside a parallel region, or for one task, it runs here.
template <typename Body> void parallelTasks(int64_t count, const Body &body) {
  if (count <= 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < count; ++i)
      body(i);
    return;
  }
#pragma omp parallel
  {
    ThreadSpan span;
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t i = 0; i < count; ++i)
      body(i);
  }
}

/// Calls body(begin, end) for parts of [0, count) whose ends are multiples of
/// `grain` (the last one's apart), one part a thread.
template <typename Body>
void parallelRange(int64_t count, int64_t grain, const Body &body) {
  if (count <= 0)
    return;
  int64_t grains = (count + grain - 1) / grain;
  int64_t parts = freeThreads();
  parts = grains < parts ? grains : parts;
  if (parts <= 1)
    return body(0, count);
#pragma omp parallel
  {
    ThreadSpan span;
#pragma omp for schedule(static, 1) nowait
    for (int64_t p = 0; p < parts; ++p) {
      int64_t begin = p * grains / parts * grain;
      int64_t end = (p + 1) * grains / parts * grain;
      body(begin, end < count ? end : count);
    }
  }
}

/// At least `bytes` of this thread's scratch, at a cache line; it keeps what it
/// once had. The page after its end cannot be touched, so that writing past
/// what was asked for (up to a cache line) ends the program at once.
void *threadScratch(int64_t bytes);

/// Reports the time between its making and its end to the trace, if there is
/// one.
class TraceScope {
public:
  TraceScope(ShxContext *context, const char *name);
  /// A product, by the name that the manifest has for it.
  TraceScope(ShxContext *context, const ShxGemm &product);
  ~TraceScope();
  TraceScope(const TraceScope &) = delete;
  TraceScope &operator=(const TraceScope &) = delete;

private:
  void enter();

  ShxContext *context;
  const char *name;
  const TraceScope *outer = nullptr;
  char text[96] = {};
  int64_t begin = 0;
  friend class ThreadSpan;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_POOL_H
