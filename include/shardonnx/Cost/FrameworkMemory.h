// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the allocator of somebody else's framework reserves for a step: its
// state, what autograd keeps of each block, the loss, and what is gathered
// meanwhile. docs/plan.md compares it with what others have published.

#ifndef SHARDONNX_COST_FRAMEWORKMEMORY_H
#define SHARDONNX_COST_FRAMEWORKMEMORY_H

#include "shardonnx/Cost/Execution.h"
#include "shardonnx/Support/Recompute.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/MemoryPlan.h"

namespace shardonnx {

/// Of the largest rank, by kind. `eager` has the manifest's units.
std::vector<MemoryItem> frameworkMemory(const Manifest &manifest,
                                        const Topology &topology,
                                        const Execution::Memory &memory,
                                        const EagerTraffic &eager,
                                        const Recompute &recompute);

} // namespace shardonnx

#endif // SHARDONNX_COST_FRAMEWORKMEMORY_H
