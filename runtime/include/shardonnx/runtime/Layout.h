// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who owns what. One place for the compiler (prediction, inspect) and the
// runtime (allocation, collectives, checkpoints): sizes in elements.

#ifndef SHARDONNX_RUNTIME_LAYOUT_H
#define SHARDONNX_RUNTIME_LAYOUT_H

#include <algorithm>
#include <cstdint>

namespace shardonnx {

// Every parameter starts at a multiple of this inside its unit, so that any
// dtype is aligned for vector loads and for collectives.
constexpr int64_t kParameterAlignment = 256;
// Slices are multiples of this (one cache line of f32).
constexpr int64_t kSliceAlignment = 16;
// Elements that have one scale, where the optimizer's state is in int8. Slices
// are then multiples of it, so that any number of ranks has the same blocks.
constexpr int64_t kStateBlock = 256;
// Units whose matrices are being made orthogonal side by side (--optimizer=
// muon): so many that ranks with less to do in one find work in the next.
constexpr int64_t kMuonWindow = 4;
// Units' buffers leave room for the padding of up to this many ranks.
constexpr int64_t kMaxRanks = 1024;
// Every planned buffer starts at a multiple of this many bytes.
constexpr int64_t kBufferAlignmentBytes = 64;

// Each of a GPU program's constants, inside their one piece of memory.
constexpr int64_t kConstantAlignmentBytes = 256;

constexpr int64_t alignTo(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr int64_t stateBlocks(int64_t elements) {
  return (elements + kStateBlock - 1) / kStateBlock;
}

// The length of each rank's slice of a unit of `length` elements.
constexpr int64_t sliceLength(int64_t length, int64_t ranks,
                              int64_t alignment = kSliceAlignment) {
  return alignTo((length + ranks - 1) / ranks, alignment);
}

// The half-open interval of the unit that `rank` owns (empty at the tail when
// the unit is small).
struct Interval {
  int64_t begin = 0, end = 0;
  constexpr int64_t size() const { return end - begin; }
};
constexpr Interval ownedInterval(int64_t length, int64_t rank, int64_t ranks,
                                 int64_t alignment = kSliceAlignment) {
  int64_t slice = sliceLength(length, ranks, alignment);
  return {std::min(rank * slice, length), std::min((rank + 1) * slice, length)};
}

// What of an interval lies at `first` or behind it.
constexpr Interval behind(int64_t first, const Interval &interval) {
  return {std::clamp(first, interval.begin, interval.end), interval.end};
}

// The ranks of a run on its mesh (Mesh.h): `context × tensor` neighbours see
// the same samples, `tensor` of them each with its part of the split
// parameters, `context` of these each with its part of the sequences. Ranks
// that have the same part of the parameters are `replicas` groups, each of
// every tensor-th rank. A sharded unit is whole once in each group, owned by
// the rank's place in it; a replicated unit is whole on every rank that has the
// part.
struct Topology {
  constexpr Topology(int ranks = 1, int replicas = 1, int ranksHere = 0,
                     int64_t sliceAlignment = kSliceAlignment, int tensor = 1,
                     int context = 1)
      : ranks(ranks), replicas(replicas),
        ranksHere(ranksHere ? ranksHere : ranks),
        sliceAlignment(sliceAlignment), tensor(tensor), context(context) {}
  int ranks, replicas; // replicas × context × tensor divides ranks
  int ranksHere;       // on this machine
  int64_t sliceAlignment;
  int tensor, context;
  // Which part of the split parameters and of its sequences a rank has.
  constexpr int tensorRank(int rank) const { return rank % tensor; }
  constexpr int contextRank(int rank) const { return rank / tensor % context; }
  // Ranks that see the same samples, and the first of them that a rank is of.
  constexpr int together() const { return context * tensor; }
  constexpr int firstTogether(int rank) const {
    return rank - rank % together();
  }
  // The rank's place among those that have its part of the parameters.
  constexpr int dataRank(int rank) const { return rank / tensor; }
  constexpr int dataRanks() const { return ranks / tensor; }
  constexpr int groupSize() const { return dataRanks() / replicas; }
  constexpr int groupRank(int rank) const {
    return dataRank(rank) % groupSize();
  }
  // Of a group, on this machine.
  constexpr int groupHere() const {
    return std::min(groupSize(), std::max(ranksHere / tensor, 1));
  }
  // Whether a group may have ranks on several machines.
  constexpr bool groupsLeaveMachine() const {
    return ranksHere < ranks && ranksHere / tensor % groupSize() != 0;
  }
  constexpr int replica(int rank) const { return dataRank(rank) / groupSize(); }
  // The groups of all parts, by replica and part, and the one of a rank.
  constexpr int groups() const { return replicas * tensor; }
  constexpr int group(int rank) const {
    return replica(rank) * tensor + tensorRank(rank);
  }
  // The rank at a place in a group of the part that `like` has.
  constexpr int rankAt(int replica, int groupRank, int like) const {
    return (replica * groupSize() + groupRank) * tensor + tensorRank(like);
  }
  // What a rank owns of a section of a unit.
  constexpr Interval owned(bool sharded, int64_t length, int rank) const {
    return ownedAt(sharded, length, groupRank(rank));
  }
  // …and what the rank at a place in a group does, in any of them.
  constexpr Interval ownedAt(bool sharded, int64_t length,
                             int groupRank) const {
    return sharded
               ? ownedInterval(length, groupRank, groupSize(), sliceAlignment)
               : Interval{0, length};
  }
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_LAYOUT_H
