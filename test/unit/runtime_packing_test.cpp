// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of few bits: a million numbers against what bitsandbytes makes of
// them (packing/record.py), in whatever parts they come, and decoded in
// whatever parts.

#include "../../runtime/support/Half.h"
#include "../../runtime/support/Packer.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Sha256.h"
#include "shardonnx/runtime/Unpack.h"
#include <gtest/gtest.h>
#include <random>

using namespace shardonnx;
using namespace shardonnx::rt;

namespace {

#include "packing/recorded.inc"

constexpr int64_t kRows = 1000, kColumns = 1000;

uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Four uniform numbers added up, of another spread every ten blocks.
float valueAt(uint64_t index) {
  uint64_t bits = splitmix(index);
  int64_t sum = -131070;
  for (unsigned i = 0; i < 4; ++i)
    sum += static_cast<int64_t>((bits >> (16 * i)) & 0xffff);
  float spread = 1 + static_cast<float>(splitmix(index / 640) % 1024) / 1024.0f;
  return static_cast<float>(sum) * 0x1p-22f * spread;
}

std::vector<float> values(int64_t count) {
  std::vector<float> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(valueAt(static_cast<uint64_t>(i)));
  return all;
}

template <typename T> std::string hashOf(const std::vector<T> &data) {
  Sha256 hash;
  hash.update(data.data(), data.size() * sizeof(T));
  return hash.hex();
}

// In parts of random length.
std::vector<uint8_t> pack(Packing packing, int64_t rows, int64_t columns,
                          const std::vector<float> &from, unsigned seed) {
  std::mt19937 random(seed);
  Packer packer(packing, rows, columns);
  auto count = static_cast<int64_t>(from.size());
  for (int64_t at = 0, n = 0; at < count; at += n) {
    n = std::min<int64_t>(count - at,
                          1 + static_cast<int64_t>(random() % 5000));
    packer.add(from.data() + at, n);
  }
  return packer.finish();
}

struct Recorded {
  Packing packing;
  const char *packed, *decoded, *narrow;
  const uint8_t *first;
  size_t shown;
};

void expectRecorded(const Recorded &recorded) {
  std::vector<float> from = values(kRows * kColumns);
  std::vector<uint8_t> packed =
      pack(recorded.packing, kRows, kColumns, from, 1);
  for (size_t i = 0; i < recorded.shown; ++i)
    ASSERT_EQ(packed[i], recorded.first[i]) << "byte " << i;
  EXPECT_EQ(hashOf(packed), recorded.packed);
  std::vector<float> decoded(from.size());
  Unpacker unpacker(recorded.packing, kRows, kColumns, packed.data());
  unpacker.decode(0, kRows * kColumns, decoded.data());
  EXPECT_EQ(hashOf(decoded), recorded.decoded);
  std::vector<BFloat16> narrow;
  for (float value : decoded)
    narrow.push_back(fromFloat<BFloat16>(value));
  EXPECT_EQ(hashOf(narrow), recorded.narrow);
}

TEST(Packing, NF4IsBitsAndBytes) {
  expectRecorded({Packing::NF4, kNF4Packed, kNF4Decoded, kNF4Narrow, kNF4First,
                  std::size(kNF4First)});
}

TEST(Packing, Int8IsBitsAndBytes) {
  expectRecorded({Packing::Int8, kInt8Packed, kInt8Decoded, kInt8Narrow,
                  kInt8First, std::size(kInt8First)});
}

TEST(Packing, DynamicMapIsBitsAndBytes) {
  static constexpr DynamicMap map;
  EXPECT_EQ(
      hashOf(std::vector<float>(std::begin(map.values), std::end(map.values))),
      kDynamicMap);
}

// Odd sizes, rows of zeros, blocks that end early.
TEST(Packing, AnyPartsGiveTheSame) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    int64_t rows = 1 + static_cast<int64_t>(random() % 40),
            columns = 1 + static_cast<int64_t>(random() % 300);
    std::vector<float> from = values(rows * columns);
    if (i % 3 == 0)
      std::fill(from.begin(), from.begin() + columns, 0.0f);
    for (Packing packing : allValues<Packing>()) {
      SCOPED_TRACE(testing::Message()
                   << spell(packing) << ' ' << rows << " x " << columns);
      std::vector<uint8_t> packed =
          pack(packing, rows, columns, from, random());
      ASSERT_EQ(packed, pack(packing, rows, columns, from, random()));
      ASSERT_EQ(static_cast<int64_t>(packed.size()),
                packedLayout(packing, rows, columns).bytes);
      Unpacker unpacker(packing, rows, columns, packed.data());
      std::vector<float> whole(from.size()), parts(from.size());
      unpacker.decode(0, rows * columns, whole.data());
      for (int64_t at = 0, n = 0; at < rows * columns; at += n) {
        n = std::min<int64_t>(rows * columns - at,
                              1 + static_cast<int64_t>(random() % 200));
        unpacker.decode(at, at + n, parts.data() + at);
      }
      ASSERT_EQ(parts, whole);
      // Neighbours of NF4 are at most 0.31 of the largest magnitude apart.
      double bound = packing == Packing::NF4 ? 0.17 : 0.004;
      float largest = 0;
      for (float value : from)
        largest = std::max(largest, std::fabs(value));
      for (size_t at = 0; at < from.size(); ++at)
        ASSERT_NEAR(whole[at], from[at], bound * static_cast<double>(largest));
    }
  }
}

} // namespace
