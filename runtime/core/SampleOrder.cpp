// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SampleOrder.h.

#include "SampleOrder.h"

namespace shardonnx::rt {

Permutation::Permutation(int64_t count, uint64_t key)
    : count(static_cast<uint64_t>(count)), key(key), halfBits(1) {
  while ((uint64_t(1) << (2 * halfBits)) < this->count)
    ++halfBits;
}

int64_t Permutation::operator()(int64_t index) const {
  const uint64_t mask = (uint64_t(1) << halfBits) - 1;
  auto x = static_cast<uint64_t>(index);
  do {
    uint64_t left = x >> halfBits, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mixBits(mixBits(key + round) ^ right) & mask);
      left = right;
      right = next;
    }
    x = left << halfBits | right;
  } while (x >= count);
  return static_cast<int64_t>(x);
}

int64_t SampleOrder::at(int64_t consumed, int64_t a, int64_t r,
                        int64_t b) const {
  int64_t index = consumed + offset(a, r) + b;
  int64_t epoch = index / samples, inEpoch = index % samples;
  if (!shuffle)
    return inEpoch;
  uint64_t key = mixBits(seed) ^ mixBits(~static_cast<uint64_t>(epoch));
  return Permutation(samples, key)(inEpoch);
}

} // namespace shardonnx::rt
