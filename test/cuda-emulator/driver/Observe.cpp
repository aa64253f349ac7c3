// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who wants to know what runs when: the emulated CUPTI, if a program loads it.

#include "Driver.h"
#include "Hooks.h"
#include <atomic>

using namespace shardonnx::emulator;

static std::atomic<ShardonnxEmulatorObserver> observer{nullptr};

void shardonnxEmulatorObserve(ShardonnxEmulatorObserver call) {
  observer = call;
}

uint32_t shardonnxEmulatorStreamId(CUstream stream) {
  std::lock_guard<std::recursive_mutex> lock(Driver::get().mutex);
  return Driver::get().streams.count(stream) ? stream->timeline : 0;
}

static uint64_t now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void shardonnx::emulator::runObserved(const std::string &name, uint32_t stream,
                                      uint64_t node, const Work &work) {
  ShardonnxEmulatorObserver call = observer;
  if (!call)
    return work();
  uint64_t begin = now();
  work();
  call(name.c_str(), begin, now(), stream, node);
}

#ifdef SHARDONNX_EMULATOR_CUPTI
// A profiler's entrance to the driver. The emulated one needs none; that there
// is one tells programs that they may load it.
extern "C" CUresult cuGetExportTable(const void **, const CUuuid *) {
  return CUDA_ERROR_NOT_FOUND;
}
#endif
