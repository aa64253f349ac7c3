// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank's GPU rows of --trace: CUPTI's records of the traced steps, beside
// the collectives that were issued in them.

#ifndef SHARDONNX_RUNTIME_CUDA_TRACER_H
#define SHARDONNX_RUNTIME_CUDA_TRACER_H

#include "Cupti.h"

namespace shardonnx::rt::cuda {

class Tracer {
public:
  /// Before the context is made. Where CUPTI does not work the run goes on
  /// without GPU rows, and the first rank of a machine warns.
  Tracer(Trace *trace, int localRank, int ranks);

  /// Around the traced steps, while nothing is running. `queues`: what is not
  /// in a graph runs on these.
  using Queues = std::vector<std::pair<CUstream, TraceRow>>;
  void begin(const Queues &queues);
  void end();
  /// Where collectives are noted while steps are traced; null: nowhere.
  std::vector<IssuedCollective> *issued() {
    return cupti ? &input.issued : nullptr;
  }

private:
  template <typename Work> void attempt(Work work);

  Trace *trace;
  const bool speaks;
  GpuTraceInput input;
  std::unique_ptr<Cupti> cupti;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_TRACER_H
