// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that help whoever has blocks to run.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_THREADPOOL_H
#define SHARDONNX_TEST_CUDA_EMULATOR_THREADPOOL_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace shardonnx::emulator {

class ThreadPool {
public:
  static ThreadPool &get();

  /// Calls `work` here and on as many helpers as are free and useful; returns
  /// when all calls have.
  void run(uint64_t parts, const std::function<void()> &work);

private:
  struct Job {
    const std::function<void()> *work;
    unsigned wanted, running = 0;
  };
  ThreadPool();
  void help();

  unsigned helpers;
  std::mutex mutex;
  std::condition_variable offered, finished;
  std::list<Job *> jobs;
};

} // namespace shardonnx::emulator

#endif
