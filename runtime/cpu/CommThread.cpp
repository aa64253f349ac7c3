// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jobs are few (some per unit and step), so a lock and a function object each
// cost nothing that shows.

#include "CommThread.h"
#include <utility>

namespace shardonnx::rt {

CommThread::CommThread(Control &control, bool threadPerQueue)
    : control(control) {
  size_t each = threadPerQueue ? 1 : kQueues;
  for (size_t first = 0; first < kQueues; first += each)
    threads.emplace_back([this, first, each] { serve(first, first + each); });
}

CommThread::~CommThread() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  control.notify();
  for (std::thread &thread : threads)
    thread.join();
}

void CommThread::push(Queue queue, Job job) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    queues[static_cast<size_t>(queue)].push_back(std::move(job));
  }
  control.notify();
}

bool CommThread::takeReady(size_t first, size_t last, Job &job) {
  std::lock_guard<std::mutex> lock(mutex);
  for (size_t i = first; i < last; ++i)
    if (std::deque<Job> &queue = queues[i];
        !queue.empty() && queue.front().ready()) {
      job = std::move(queue.front());
      queue.pop_front();
      control.block(control.rank()).jobs.fetch_add(1);
      return true;
    }
  return stopping;
}

void CommThread::serve(size_t first, size_t last) {
  while (true) {
    Job job;
    control.wait(Activity::Running, 0, /*spin=*/false,
                 [&] { return takeReady(first, last, job); });
    if (!job.run)
      return;
    job.run();
    control.block(control.rank()).jobs.fetch_sub(1);
  }
}

} // namespace shardonnx::rt
