// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that help whoever has blocks to run.

#include "ThreadPool.h"
#include <algorithm>
#include <cstdlib>
#include <thread>

using namespace shardonnx::emulator;

ThreadPool &ThreadPool::get() {
  // Never destroyed: its threads wait for ever.
  static ThreadPool *pool = new ThreadPool;
  return *pool;
}

ThreadPool::ThreadPool() {
  const char *text = std::getenv("SHARDONNX_EMULATOR_THREADS");
  unsigned threads = text ? static_cast<unsigned>(std::atoi(text)) : 0;
  if (!threads)
    threads = std::max(1u, std::thread::hardware_concurrency());
  helpers = threads - 1;
  for (unsigned k = 0; k < helpers; ++k)
    std::thread([this] { help(); }).detach();
}

void ThreadPool::help() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    offered.wait(lock, [&] { return !jobs.empty(); });
    Job *job = jobs.front();
    if (--job->wanted == 0)
      jobs.pop_front();
    ++job->running;
    lock.unlock();
    (*job->work)();
    lock.lock();
    if (--job->running == 0)
      finished.notify_all();
  }
}

void ThreadPool::run(uint64_t parts, const std::function<void()> &work) {
  Job job{&work, static_cast<unsigned>(
                     std::min<uint64_t>(helpers, parts ? parts - 1 : 0))};
  if (job.wanted) {
    std::lock_guard<std::mutex> lock(mutex);
    jobs.push_back(&job);
    offered.notify_all();
  }
  work();
  std::unique_lock<std::mutex> lock(mutex);
  jobs.remove(&job);
  finished.wait(lock, [&] { return job.running == 0; });
}
