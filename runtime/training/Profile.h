// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of --profile: where the time of a step goes, kernel by kernel and
// product by product, beside what the machine could do at best.

#ifndef SHARDONNX_RUNTIME_PROFILE_H
#define SHARDONNX_RUNTIME_PROFILE_H

#include "../core/Engine.h"
#include "../core/Trace.h"
#include "shardonnx/runtime/Manifest.h"
#include <string>

namespace shardonnx::rt {

/// Of the steps that the trace has recorded, each of so many microbatches, and
/// of slices that hold `owned` trainable elements. Without peaks there are no
/// shares of them.
std::string profileText(const Trace &trace, const Manifest &manifest,
                        int64_t microbatches, int64_t owned,
                        const std::optional<Peaks> &peaks);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PROFILE_H
