// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Stream.h.

#include "Stream.h"
#include <algorithm>

namespace shardonnx::rt::cuda {

Stream::Stream(Priority priority) {
  int least = 0, greatest = 0;
  check(driver().cuCtxGetStreamPriorityRange(&least, &greatest),
        "asking for the priorities of streams");
  int value = least; // lower numbers go first
  if (priority == Priority::Normal)
    value = std::max(least - 1, greatest);
  else if (priority == Priority::High)
    value = greatest;
  check(driver().cuStreamCreateWithPriority(&handle, CU_STREAM_NON_BLOCKING,
                                            value),
        "making a stream");
}

Stream::~Stream() {
  if (handle)
    driver().cuStreamDestroy(handle);
}

void Stream::synchronize(const char *what) const {
  check(driver().cuStreamSynchronize(handle), what);
}

Event::Event(Kind kind) {
  check(driver().cuEventCreate(&handle, kind == Timing
                                            ? CU_EVENT_BLOCKING_SYNC
                                            : CU_EVENT_DISABLE_TIMING),
        "making an event");
}

Event::~Event() {
  if (handle)
    driver().cuEventDestroy(handle);
}

void Event::record(CUstream stream) const {
  check(driver().cuEventRecord(handle, stream), "recording an event");
}

void Event::wait(CUstream stream) const {
  check(driver().cuStreamWaitEvent(stream, handle, CU_EVENT_WAIT_DEFAULT),
        "making a stream wait for an event");
}

void Event::synchronize(const char *what) const {
  check(driver().cuEventSynchronize(handle), what);
}

bool Event::done() const {
  CUresult result = driver().cuEventQuery(handle);
  if (result == CUDA_ERROR_NOT_READY)
    return false;
  check(result, "asking whether a step is done");
  return true;
}

double Event::milliseconds(const Event &begin, const Event &end) {
  float value = 0;
  check(driver().cuEventElapsedTime(&value, begin, end),
        "taking the time between two events");
  return static_cast<double>(value);
}

} // namespace shardonnx::rt::cuda
