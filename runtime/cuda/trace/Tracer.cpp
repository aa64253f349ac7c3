// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Tracer.h.

#include "Tracer.h"
#include "../../support/Error.h"

namespace shardonnx::rt::cuda {

// A run is worth more than its trace.
template <typename Work> void Tracer::attempt(Work work) {
  try {
    work();
  } catch (const Error &e) {
    cupti.reset();
    trace->hasTimes = false;
    trace->missing = concat("the GPU's rows: ", e.what());
    if (speaks)
      printWarning(concat("--trace has no rows of the GPU: ", e.what()));
  }
}

Tracer::Tracer(Trace *trace, int localRank, int ranks)
    : trace(trace), speaks(localRank == 0) {
  if (!trace)
    return;
  if (!Cupti::builtIn())
    fail("--trace: this program was compiled by a shardonnx that was built "
         "without CUPTI's header (cupti.h of CUDA 13): build it where that is, "
         "or leave --trace out");
  input.severalRanks = ranks > 1;
  attempt([this] { cupti = Cupti::make(); });
}

void Tracer::begin(const Queues &queues) {
  if (!cupti)
    return;
  attempt([&] {
    for (auto [stream, row] : queues)
      input.rowOfStream[cupti->streamId(stream)] = row;
    cupti->begin();
  });
}

void Tracer::end() {
  if (!cupti)
    return;
  attempt([this] {
    input.records = cupti->end(*trace);
    addGpuWork(*trace, std::move(input));
  });
}

} // namespace shardonnx::rt::cuda
