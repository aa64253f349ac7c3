// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams, each with a thread of its own, and the state all calls share.

#include "Driver.h"
#include "Hooks.h"
#include "machine/ThreadPool.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>

using namespace shardonnx::emulator;

void shardonnx::emulator::say(const std::string &message) {
  std::fprintf(stderr, "cuda emulator: %s\n", message.c_str());
}

Driver &Driver::get() {
  // Never destroyed: threads of streams may outlive main().
  static Driver *driver = new Driver;
  return *driver;
}

std::vector<CUctx_st *> &shardonnx::emulator::contextStack() {
  static thread_local std::vector<CUctx_st *> stack;
  return stack;
}

CUctx_st *shardonnx::emulator::currentContext() {
  return contextStack().empty() ? nullptr : contextStack().back();
}

bool &shardonnx::emulator::insideHostFunction() {
  static thread_local bool inside = false;
  return inside;
}

CUresult shardonnx::emulator::enter() {
  if (!Driver::get().initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (insideHostFunction()) {
    say("a host function on a stream calls the driver");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  CUctx_st *context = currentContext();
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  return context->error;
}

static CUstreamCaptureMode &threadMode() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(*mode, threadMode());
  return CUDA_SUCCESS;
}

CUresult shardonnx::emulator::enterUnsafe(const char *name) {
  if (CUresult result = enter())
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (threadMode() == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  for (const auto &capture : driver.captures) {
    bool own = capture->owner == std::this_thread::get_id();
    bool forbids = (own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) ||
                   (threadMode() == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                    capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!forbids)
      continue;
    capture->invalid = true;
    say(std::string(name) + " while a stream captures");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult shardonnx::emulator::enterStream(CUstream stream) {
  if (CUresult result = enter())
    return result;
  if (stream == nullptr || stream == CU_STREAM_LEGACY ||
      stream == CU_STREAM_PER_THREAD) {
    say("the default stream is not emulated: use a stream of your own");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (!driver.streams.count(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  return stream->context->error;
}

void shardonnx::emulator::failContext(CUctx_st *context, const Fault &fault) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  // What follows the first error is its consequence.
  if (context->error)
    return;
  say(fault.what());
  context->error = static_cast<CUresult>(fault.code);
}

void Completion::finish() {
  std::lock_guard<std::mutex> lock(mutex);
  done = true;
  time = std::chrono::steady_clock::now();
  changed.notify_all();
}

void Completion::wait() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool Completion::isDone() {
  std::lock_guard<std::mutex> lock(mutex);
  return done;
}

void CUstream_st::loop() {
  contextStack() = {context};
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return closing || !queue.empty(); });
    if (queue.empty())
      return;
    Work work = std::move(queue.front());
    queue.pop_front();
    busy = true;
    lock.unlock();
    shuffleDelay();
    try {
      work();
    } catch (const Fault &fault) {
      failContext(context, fault);
    }
    work = nullptr;
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}

void CUstream_st::push(Work work) {
  std::lock_guard<std::mutex> lock(mutex);
  queue.push_back(std::move(work));
  changed.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return queue.empty() && !busy; });
}

bool CUstream_st::idle() {
  std::lock_guard<std::mutex> lock(mutex);
  return queue.empty() && !busy;
}

void shardonnx::emulator::drainStreams(CUctx_st *context, bool all) {
  Driver &driver = Driver::get();
  std::vector<CUstream> waiting;
  {
    std::lock_guard<std::recursive_mutex> lock(driver.mutex);
    for (CUstream stream : driver.streams)
      if (stream->context == context &&
          (all || !(stream->flags & CU_STREAM_NON_BLOCKING)))
        waiting.push_back(stream);
  }
  for (CUstream stream : waiting) {
    stream->drain();
    seeStream(stream);
  }
}

void shardonnx::emulator::seeStream(CUstream stream) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  mergeClock(driver.host, stream->clock);
}

Work shardonnx::emulator::inOrder(Order order, Work work) {
  return [order = std::move(order), work = std::move(work)] {
    beginOrder(order);
    work();
    currentOrder() = nullptr;
  };
}

/// The work's place among all work; the stream goes on behind it.
static Order nextOrder(CUstream stream, const std::string &name) {
  mergeClock(stream->clock, Driver::get().host);
  Order order;
  order.name = name;
  order.timeline = stream->timeline;
  order.clock = std::make_shared<const Clock>(stream->clock);
  order.sequence = ++stream->clock[stream->timeline];
  return order;
}

CUresult shardonnx::emulator::enqueue(CUstream stream, std::string name,
                                      Work work) {
  if (CUresult result = enterStream(stream))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (!stream->capture) {
    CUctx_st *context = stream->context;
    if (raceChecking())
      work = inOrder(nextOrder(stream, name), std::move(work));
    stream->push([context, name = std::move(name), id = stream->timeline,
                  work = std::move(work)] {
      if (!context->error)
        runObserved(name, id, 0, work);
    });
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode> &nodes = stream->capture->graph->nodes;
  bool computes =
      name.compare(0, 7, "kernel ") == 0 || name.compare(0, 4, "nccl") == 0;
  nodes.push_back({std::move(name),
                   std::move(work),
                   {stream->tips.begin(), stream->tips.end()}});
  if (computes)
    nodes.back().priority = stream->priority;
  stream->tips = {nodes.size() - 1};
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                    int priority) {
  if (CUresult result = enterUnsafe("cuStreamCreate"))
    return result;
  auto *created = new CUstream_st;
  created->context = currentContext();
  created->flags = flags;
  created->priority = priority;
  created->thread = std::thread([created] { created->loop(); });
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.streams.insert(created);
  created->timeline = driver.timelines++;
  created->clock = driver.host;
  created->clock.resize(driver.timelines);
  *stream = created;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  Driver &driver = Driver::get();
  {
    std::lock_guard<std::recursive_mutex> lock(driver.mutex);
    if (!driver.streams.count(stream))
      return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
      say("cuStreamDestroy of a stream that captures");
      stream->capture->invalid = true;
      stream->capture->streams.erase(stream);
    }
    driver.streams.erase(stream);
  }
  // As the real one, but it waits for the work to end.
  {
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->closing = true;
    stream->changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  return CUDA_SUCCESS;
}

/// Waiting for or asking a stream that captures spoils the capture.
static CUresult enterWait(CUstream stream, const char *name) {
  if (CUresult result = enterStream(stream))
    return result;
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (!stream->capture)
    return CUDA_SUCCESS;
  stream->capture->invalid = true;
  say(std::string(name) + " of a stream that captures");
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (CUresult result = enterWait(stream, "cuStreamSynchronize"))
    return result;
  stream->drain();
  seeStream(stream);
  return stream->context->error;
}

CUresult cuStreamQuery(CUstream stream) {
  if (CUresult result = enterWait(stream, "cuStreamQuery"))
    return result;
  if (!stream->idle())
    return CUDA_ERROR_NOT_READY;
  seeStream(stream);
  return stream->context->error;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  if (CUresult result = enterStream(stream))
    return result;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  if (CUresult result = enterStream(stream))
    return result;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  if (CUresult result = enterStream(stream))
    return result;
  *context = stream->context;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  return enqueue(stream, "host function", [=] {
    insideHostFunction() = true;
    function(data);
    insideHostFunction() = false;
  });
}

CUresult shardonnxEmulatorEnqueue(CUstream stream, const char *name,
                                  CUresult (*run)(void *), void *argument,
                                  void (*destroy)(void *)) {
  std::shared_ptr<void> held(argument, destroy);
  std::string text = name;
  return enqueue(stream, text, [=] {
    if (CUresult result = run(held.get()))
      throw Fault(result, text + " failed");
  });
}

void shardonnxEmulatorFail(CUresult code, const char *message) {
  if (CUctx_st *context = currentContext())
    failContext(context, Fault(code, message));
  else
    say(message);
}

void *shardonnxEmulatorReserve(int device, size_t bytes, const char *what) {
  std::shared_ptr<void> memory = reserveMemory(device, bytes, what);
  return memory ? new std::shared_ptr<void>(std::move(memory)) : nullptr;
}

void shardonnxEmulatorUnreserve(void *reserved) {
  delete static_cast<std::shared_ptr<void> *>(reserved);
}

void *shardonnxEmulatorAccess(CUdeviceptr address, size_t bytes, int writes,
                              const char *who) {
  void *host = shardonnxEmulatorTranslate(address, bytes, who);
  if (host && raceChecking()) {
    try {
      touchMemory(static_cast<char *>(host), bytes, writes != 0);
    } catch (const Fault &fault) {
      say(fault.what());
      return nullptr;
    }
  }
  return host;
}

void *shardonnxEmulatorTranslate(CUdeviceptr address, size_t bytes,
                                 const char *who) {
  char *host = DeviceMemory::get().translate(address, bytes);
  if (!host)
    say(std::string(who) + ": " + DeviceMemory::get().describe(address, bytes));
  return host;
}

int shardonnxEmulatorDevice(CUstream stream) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  return driver.streams.count(stream) ? stream->context->device : -1;
}

void shardonnxEmulatorParallel(uint64_t count, void (*run)(void *, uint64_t),
                               void *argument) {
  std::atomic<uint64_t> next{0};
  ThreadPool::get().run(count, [&] {
    for (uint64_t k; (k = next++) < count;)
      run(argument, k);
  });
}

uint64_t shardonnxEmulatorInstructions() { return executedInstructions(); }
