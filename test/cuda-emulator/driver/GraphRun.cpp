// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs graphs: every node as soon as the ones before it are done, on threads of
// which there are always enough, since nodes may wait for other processes.

#include "Driver.h"
#include <algorithm>
#include <exception>

using namespace shardonnx::emulator;

namespace {

/// Threads that are made when none is free, and kept.
class ElasticPool {
public:
  static ElasticPool &get() {
    static ElasticPool *pool = new ElasticPool;
    return *pool;
  }

  void run(CUctx_st *context, Work work) {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back([context, work = std::move(work)] {
      contextStack() = {context};
      work();
    });
    if (idle < queue.size())
      std::thread([this] { loop(); }).detach();
    else
      changed.notify_one();
  }

private:
  void loop() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      ++idle;
      changed.wait(lock, [&] { return !queue.empty(); });
      --idle;
      Work work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  size_t idle = 0;
};

/// One launch of a graph.
class GraphRun {
public:
  GraphRun(const CUgraph_st &graph, CUctx_st *context)
      : graph(graph), context(context), missing(graph.nodes.size()),
        followers(graph.nodes.size()), launch(currentOrder()) {
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      missing[node] = graph.nodes[node].after.size();
      for (size_t before : graph.nodes[node].after)
        followers[before].push_back(node);
    }
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (size_t node = 0; node < missing.size(); ++node)
      if (!missing[node])
        ready.push_back(node);
    while (finished < missing.size()) {
      if (!ready.empty()) {
        // The last one is run here when nothing else goes on.
        size_t node = take();
        if (ready.empty() && running == 0) {
          ++running;
          lock.unlock();
          execute(node);
          lock.lock();
        } else {
          ++running;
          ElasticPool::get().run(context, [this, node] { execute(node); });
        }
        continue;
      }
      changed.wait(lock);
    }
    // execute() of another thread may still hold the lock's last use.
    changed.wait(lock, [&] { return running == 0; });
    if (failure)
      throw Fault(*failure);
  }

private:
  size_t take() {
    size_t which = shuffling() ? shuffleNumber() % ready.size() : 0;
    size_t node = ready[which];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(which));
    return node;
  }

  void execute(size_t node) {
    std::unique_ptr<Fault> caught;
    shuffleDelay();
    try {
      if (!failed())
        runNode(node);
    } catch (const Fault &fault) {
      caught = std::make_unique<Fault>(fault);
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (caught && !failure)
      failure = std::move(caught);
    for (size_t next : followers[node])
      if (--missing[next] == 0)
        ready.push_back(next);
    ++finished;
    --running;
    changed.notify_all();
  }

  void runNode(size_t node) {
    const GraphNode &what = graph.nodes[node];
    if (!launch || !graph.order)
      return runObserved(what.name, 0, node + 1, what.work);
    Order order = *launch;
    order.name = what.name;
    order.graph = graph.order;
    order.node = static_cast<uint32_t>(node);
    runObserved(what.name, 0, node + 1, inOrder(std::move(order), what.work));
  }

  bool failed() {
    std::lock_guard<std::mutex> lock(mutex);
    return failure != nullptr;
  }

  const CUgraph_st &graph;
  CUctx_st *context;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<size_t> missing, ready;
  std::vector<std::vector<size_t>> followers;
  /// The graph's own place, when races are looked for.
  std::shared_ptr<const Order> launch;
  size_t finished = 0, running = 0;
  std::unique_ptr<Fault> failure;
};

} // namespace

void shardonnx::emulator::runGraph(const CUgraph_st &graph, CUctx_st *context) {
  GraphRun(graph, context).run();
}
