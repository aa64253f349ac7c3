// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a step sends over the links: arithmetic on its collectives, for any
// number of ranks, replicas and microbatches. No IR, so that it serves modules
// and manifests.

#ifndef SHARDONNX_COST_TRAFFIC_H
#define SHARDONNX_COST_TRAFFIC_H

#include "shardonnx/runtime/Layout.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace shardonnx {

enum class CollectiveKind { AllGather, ReduceScatter, AllReduce };

llvm::StringRef stringify(CollectiveKind kind);

/// One collective of a step.
struct Collective {
  CollectiveKind kind;
  std::string unit;
  int64_t bytes; // of the whole unit
  /// An all-gather: ranks that hold the unit between them, if fewer than its
  /// owners (reshard_group); 0: the owners.
  int64_t group = 0;
  /// A reduce-scatter: f32 bytes of what it sums up, which replicas add up
  /// slice by slice once a step.
  int64_t sumBytes = 0;

  /// What each rank sends in the algorithm of least traffic, the mean over
  /// ranks: (N-1)/N of what N ranks gather or scatter, twice that for an
  /// all-reduce.
  int64_t bytesSent(Topology ranks) const;
  /// A reduce-scatter: what a rank sends to the other replicas.
  int64_t bytesToReplicas(Topology ranks) const;
};

/// What each rank sends in a step, by kind. Norms and losses, a few bytes each,
/// are left out.
struct StepTraffic {
  int64_t allGather = 0, reduceScatter = 0, allReduce = 0;
  int64_t total() const { return allGather + reduceScatter + allReduce; }
};

/// Of a step of `microbatches`, of which one issues `first`, the others `next`,
/// and an `update`. With `unsharded` accumulation only the last one reduces.
StepTraffic trafficOf(llvm::ArrayRef<Collective> first,
                      llvm::ArrayRef<Collective> next,
                      llvm::ArrayRef<Collective> update, bool unsharded,
                      Topology ranks, int64_t microbatches);

} // namespace shardonnx

#endif // SHARDONNX_COST_TRAFFIC_H
