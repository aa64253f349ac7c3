// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Offsets for buffers of known sizes and lifetimes: pure arithmetic, no IR, so
// that it can be tested on random lifetimes.

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_OFFSETPLANNER_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_OFFSETPLANNER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace shardonnx::exec {

/// Times at which a buffer lives, half open.
struct LiveRange {
  int64_t begin = 0, end = 0;
};

struct PlanItem {
  /// In bytes; planned as a multiple of kBufferAlignmentBytes.
  int64_t bytes = 0;
  /// Sorted and disjoint.
  llvm::SmallVector<LiveRange, 1> live;
  /// The result.
  int64_t offset = 0;
};

struct PlanSummary {
  /// The end of the highest buffer.
  int64_t bytes = 0;
  /// The largest sum of (aligned) sizes that live at one time, and when.
  int64_t lowerBound = 0;
  int64_t peakTime = 0;
};

/// The lower bound alone; `bytes` is left 0.
PlanSummary measureItems(llvm::ArrayRef<PlanItem> items);

/// The order that is tried first, and kept where no other takes fewer bytes.
enum class PlanOrder {
  Size,     // the largest first, which seldom leaves gaps
  Lifetime, // the longest first: what is freed soonest lies together at the top
};

/// Sets each item's offset so that items that live at one time do not overlap:
/// best fit over several orders, then moves what stands at the top to the front
/// while that helps. Deterministic. The first `placed` items stay where they
/// are.
PlanSummary planOffsets(llvm::MutableArrayRef<PlanItem> items,
                        size_t placed = 0, PlanOrder first = PlanOrder::Size);

/// Two items that live at one time on overlapping bytes, if there are any.
std::optional<std::pair<unsigned, unsigned>>
findOverlap(llvm::ArrayRef<PlanItem> items);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_OFFSETPLANNER_H
