// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Streams and events that end with their owner.

#ifndef SHARDONNX_RUNTIME_CUDA_STREAM_H
#define SHARDONNX_RUNTIME_CUDA_STREAM_H

#include "Driver.h"
#include <utility>

namespace shardonnx::rt::cuda {

/// What is of higher priority goes first where a multiprocessor becomes free.
enum class Priority { Background, Normal, High };

/// Does not synchronise with the null stream. Converts to the driver's handle.
class Stream {
public:
  explicit Stream(Priority priority = Priority::Normal);
  Stream(Stream &&other) noexcept
      : handle(std::exchange(other.handle, nullptr)) {}
  Stream &operator=(Stream &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Stream();
  operator CUstream() const { return handle; }
  void synchronize(const char *what) const;

private:
  CUstream handle = nullptr;
};

class Event {
public:
  enum Kind { Order, Timing };
  explicit Event(Kind kind = Order);
  Event(Event &&other) noexcept
      : handle(std::exchange(other.handle, nullptr)) {}
  Event &operator=(Event &&other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Event();
  operator CUevent() const { return handle; }
  /// The point that `stream` has reached with what was enqueued so far.
  void record(CUstream stream) const;
  /// What is enqueued on `stream` from now on waits for the recorded point.
  void wait(CUstream stream) const;
  /// The host waits.
  void synchronize(const char *what) const;
  bool done() const; // throws when the work before it failed
  /// Both of kind Timing, and done.
  static double milliseconds(const Event &begin, const Event &end);

private:
  CUevent handle = nullptr;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_STREAM_H
