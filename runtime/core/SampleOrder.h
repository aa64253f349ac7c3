// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which samples a step sees: the same at every world size for the same global
// batch, and shuffled from the seed alone.

#ifndef SHARDONNX_RUNTIME_SAMPLEORDER_H
#define SHARDONNX_RUNTIME_SAMPLEORDER_H

#include <cstdint>

namespace shardonnx::rt {

/// A bijection of [0, count) drawn from a key, computed point by point: a
/// Feistel network over the next power of four, walked until it lands inside.
class Permutation {
public:
  Permutation(int64_t count, uint64_t key);
  int64_t operator()(int64_t index) const;

private:
  uint64_t count, key;
  unsigned halfBits;
};

struct SampleOrder {
  int64_t batch = 1, ranks = 1, accumulate = 1; // B, N, A
  int64_t samples = 1;                          // of the data
  bool shuffle = false;
  uint64_t seed = 0;

  int64_t perStep() const { return batch * ranks * accumulate; }
  /// How many samples of the step come before microbatch a of rank r.
  int64_t offset(int64_t a, int64_t r) const { return (a * ranks + r) * batch; }
  /// The b-th sample of microbatch a of rank r in the step that begins when
  /// `consumed` samples of the run have been used.
  int64_t at(int64_t consumed, int64_t a, int64_t r, int64_t b) const;
};

/// A well-mixed function of its input (splitmix64's finaliser).
inline uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_SAMPLEORDER_H
