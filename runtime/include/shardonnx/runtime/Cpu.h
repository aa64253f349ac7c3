// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime's core asks of the CPU kernels, beside the ABI.

#ifndef SHARDONNX_RUNTIME_CPU_H
#define SHARDONNX_RUNTIME_CPU_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

// How many threads the rank's pool (the GEMM library's too) uses from now on.
// Call it on the thread that issues the program's calls.
void setPoolThreads(int threads);

// Called after each kernel or library call with its name and its begin and end
// on CLOCK_MONOTONIC, and by each thread of the pool with its part of one;
// `thread` is kWholeCall for the former. The name is gone afterwards. Null
// turns it off. Set it before the first call.
constexpr int kWholeCall = -1;
using KernelTrace = void (*)(ShxContext *context, const char *name, int thread,
                             int64_t beginNs, int64_t endNs);
void setKernelTrace(KernelTrace trace);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_H
