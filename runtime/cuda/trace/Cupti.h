// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the GPU did and when, as CUPTI's activity API records it. The library
// is loaded when a trace is asked for. There is one recorder in a process.

#ifndef SHARDONNX_RUNTIME_CUDA_CUPTI_H
#define SHARDONNX_RUNTIME_CUDA_CUPTI_H

#include "../driver/Driver.h"
#include "GpuTrace.h"
#include <memory>

namespace shardonnx::rt::cuda {

class Cupti {
public:
  /// Whether this runtime was built with CUPTI's header.
  static bool builtIn();
  /// Before the context is made. Throws an Error with the reason where CUPTI
  /// is not there or refuses.
  static std::unique_ptr<Cupti> make();
  virtual ~Cupti() = default;

  /// What was recorded so far is forgotten; nothing is running. It may begin
  /// again when it has ended.
  virtual void begin() = 0;
  /// What has run since, and recording ends; nothing is running.
  virtual std::vector<GpuRecord> end(Trace &trace) = 0;
  /// As records have it.
  virtual uint32_t streamId(CUstream stream) = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_CUPTI_H
