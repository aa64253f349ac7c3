// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the cores of this rank do at best, for --profile.

#ifndef SHARDONNX_RUNTIME_CPU_PEAKS_H
#define SHARDONNX_RUNTIME_CPU_PEAKS_H

#include "../core/Engine.h"
#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cpu {

/// A large square product of this dtype, and a + s·b over arrays that no cache
/// holds, each for about a tenth of a second.
Peaks measurePeaks(ShxDType dtype);

} // namespace shardonnx::rt::cpu

#endif // SHARDONNX_RUNTIME_CPU_PEAKS_H
