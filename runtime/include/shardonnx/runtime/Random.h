// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The random numbers of dropout and of graphs that draw: a function of where an
// element stands, so that backward, recomputation, any number of ranks and any
// accumulation see the same ones, and none is ever stored. The compiler emits
// the same arithmetic into kernels (lib/Dialect/NN/IR/Random.cpp); this header
// is the definition.
//
// A row (all axes but the last, samples counted over the whole run) gets a key
// of 64 bits: splitmix64's finaliser over a counter that starts at a point of
// the (seed, op), a generator that passes BigCrush. An element gets 32 bits:
// its column and the first half of the key go through three rounds of
// multiplication and xorshift (Wellons' triple32, found by search for the least
// bias of avalanche), the second half of the key being added
// between two rounds, so that rows whose first halves lie close are still two
// permutations, not one shifted. An element is kept if its bits are at least
// ratio·2³²; as a number in [0, 1), its upper 24 bits count. Philox4x32-10
// would cost five times the instructions; random_test measures means, variances
// and correlations between neighbours, rows, samples and ops.

#ifndef SHARDONNX_RUNTIME_RANDOM_H
#define SHARDONNX_RUNTIME_RANDOM_H

#include <cstdint>

namespace shardonnx::random {

// splitmix64 (Steele, Lea, Flood 2014): a step of the counter, the finaliser.
constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
constexpr uint64_t kMix1 = 0xbf58476d1ce4e5b9u, kMix2 = 0x94d049bb133111ebu;
constexpr int kMixShifts[3] = {30, 27, 31};
// triple32.
constexpr uint32_t kHash[3] = {0xed5ad4bbu, 0xac4c1b51u, 0x31848babu};
constexpr int kHashShifts[4] = {17, 11, 15, 14};

constexpr uint64_t finalise(uint64_t x) {
  x = (x ^ (x >> kMixShifts[0])) * kMix1;
  x = (x ^ (x >> kMixShifts[1])) * kMix2;
  return x ^ (x >> kMixShifts[2]);
}

// Where the counter of one op of a run starts.
constexpr uint64_t streamKey(uint64_t seed, uint64_t op) {
  return finalise(finalise(seed + kStep) ^ finalise(~op));
}

constexpr uint64_t rowKey(uint64_t stream, uint64_t row) {
  return finalise(stream + row * kStep);
}

constexpr uint32_t elementBits(uint64_t key, uint32_t column) {
  uint32_t x = column + static_cast<uint32_t>(key);
  x = (x ^ (x >> kHashShifts[0])) * kHash[0];
  x = (x ^ (x >> kHashShifts[1])) + static_cast<uint32_t>(key >> 32);
  x = x * kHash[1];
  x = (x ^ (x >> kHashShifts[2])) * kHash[2];
  return x ^ (x >> kHashShifts[3]);
}

// Elements with fewer bits are dropped.
constexpr uint32_t dropBelow(double ratio) {
  return static_cast<uint32_t>(ratio * 4294967296.0);
}

// A number in [0, 1), as torch.rand has 24 bits of a float.
constexpr int kFractionBits = 24;
constexpr float kFractionStep = 1.0F / (1 << kFractionBits);

constexpr float fractionOf(uint32_t bits) {
  return static_cast<float>(bits >> (32 - kFractionBits)) * kFractionStep;
}

} // namespace shardonnx::random

#endif // SHARDONNX_RUNTIME_RANDOM_H
