// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where ranks of a mesh stand, and which elements of a tensor are theirs.

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Mesh.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace shardonnx;

// rank = ((replicate·S + shard)·C + context)·T + tensor, with 2 × 3 × 2 × 2.
TEST(Topology, ContextRanksShardParametersToo) {
  Topology t(24, 2, /*ranksHere=*/0, kSliceAlignment, /*tensor=*/2,
             /*context=*/2);
  EXPECT_EQ(t.together(), 4);
  EXPECT_EQ(t.groupSize(), 6);
  EXPECT_EQ(t.tensorRank(23), 1);
  EXPECT_EQ(t.contextRank(23), 1);
  EXPECT_EQ(t.contextRank(21), 0);
  EXPECT_EQ(t.firstTogether(23), 20);
  EXPECT_EQ(t.groupRank(23), 5);
  EXPECT_EQ(t.groupRank(21), 4);
  EXPECT_EQ(t.replica(21), 1);
  EXPECT_EQ(t.rankAt(1, 4, 1), 21);
}

namespace {

// The elements of a part, one by one: [outer, sections, inner].
std::vector<int64_t> elementsOf(const std::vector<int64_t> &sections,
                                int64_t part, int64_t parts, int64_t outer,
                                int64_t inner, bool zigzag) {
  std::vector<int64_t> all;
  int64_t size = 0;
  for (int64_t section : sections)
    size += section;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t begin = 0, s = 0; s < int64_t(sections.size()); ++s) {
      int64_t mine = sections[size_t(s)] / parts;
      int64_t place = zigzag && s % 2 == 1 ? parts - 1 - part : part;
      for (int64_t i = 0; i < mine * inner; ++i)
        all.push_back((o * size + begin + place * mine) * inner + i);
      begin += sections[size_t(s)];
    }
  return all;
}

} // namespace

static void walkParts(const std::vector<int64_t> &sections, int64_t parts,
                      bool zigzag) {
  constexpr int64_t kOuter = 3, kInner = 5;
  const int64_t whole =
      kOuter * kInner *
      std::accumulate(sections.begin(), sections.end(), int64_t(0));
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<int64_t> all =
        elementsOf(sections, part, parts, kOuter, kInner, zigzag);
    SplitPart split(sections.data(), sections.size(), part, parts, zigzag);
    for (int64_t begin : {0, 7, 31}) {
      std::vector<int64_t> walked;
      split.forRuns(kInner, begin, int64_t(all.size()),
                    [&](int64_t at, int64_t whole, int64_t count) {
                      EXPECT_EQ(at, begin + int64_t(walked.size()));
                      for (int64_t i = 0; i < count; ++i)
                        walked.push_back(whole + i);
                    });
      EXPECT_EQ(walked, std::vector<int64_t>(all.begin() + begin, all.end()));
    }
    for (int64_t end = 0; end <= whole; ++end) {
      auto before = std::lower_bound(all.begin(), all.end(), end);
      EXPECT_EQ(split.countBefore(kInner, end), before - all.begin()) << end;
    }
  }
}

TEST(SplitPart, WalksItsElements) { walkParts({6, 2, 4}, 2, /*zigzag=*/false); }

// Rank c of three has chunks c and 5-c of six.
TEST(SplitPart, WalksChunksOfAZigzag) { walkParts({6, 6}, 3, /*zigzag=*/true); }
