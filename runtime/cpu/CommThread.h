// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The communication thread of a rank: queues, each in order, served as their
// heads become ready, so that a prefetched gather does not stall behind a
// reduce-scatter, nor that one behind a sum over the replicas. Where a job
// waits for other machines, each queue has a thread of its own.

#ifndef SHARDONNX_RUNTIME_COMMTHREAD_H
#define SHARDONNX_RUNTIME_COMMTHREAD_H

#include "../comm/Control.h"
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shardonnx::rt {

struct Job {
  std::function<bool()> ready; // asked often, so it only reads counters
  std::function<void()> run;   // publishes what it has done
};

enum class Queue { Gather, Reduce, ReplicaSum, ReplicaCopy };
constexpr size_t kQueues = 4;

class CommThread {
public:
  CommThread(Control &control, bool threadPerQueue);
  ~CommThread(); // drops what is still queued: nobody waits for it
  CommThread(const CommThread &) = delete;
  CommThread &operator=(const CommThread &) = delete;

  void push(Queue queue, Job job);

private:
  void serve(size_t first, size_t last);
  bool takeReady(size_t first, size_t last, Job &job);

  Control &control;
  std::mutex mutex;
  std::deque<Job> queues[kQueues];
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_COMMTHREAD_H
