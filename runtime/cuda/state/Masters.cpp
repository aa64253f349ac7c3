// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Masters.h.

#include "Masters.h"
#include "../../support/Convert.h"
#include "../../support/Half.h"
#include "shardonnx/runtime/MasterHalves.h"
#include <algorithm>
#include <vector>

namespace shardonnx::rt::cuda {
namespace {

constexpr int64_t kElements = 1 << 20; // that are in host memory at a time
constexpr int64_t kHalf = sizeof(uint16_t);

template <typename Visit> void forPieces(int64_t count, Visit visit) {
  for (int64_t at = 0; at < count; at += kElements)
    visit(at, std::min(kElements, count - at));
}

uint8_t *upperHalves(const UnitState &unit, int64_t begin) {
  uint8_t *params = unit.hostParams ? unit.hostParams : unit.params;
  return params + (begin - unit.owned.begin) * kHalf;
}

template <typename T> uint8_t *bytesOf(std::vector<T> &values) {
  return reinterpret_cast<uint8_t *>(values.data());
}

} // namespace

void splitMasters(const UnitState &unit, int64_t begin, const float *values,
                  int64_t count, const PutFilled &put) {
  put(upperHalves(unit, begin), kHalf, count,
      [&](uint8_t *to, int64_t at, int64_t n) {
        narrow(SHX_BF16, to, values + at, n);
      });
  // Rounded again rather than kept: the loop waits for memory.
  put(unit.address(StateArray::Master, begin), kHalf, count,
      [&](uint8_t *to, int64_t at, int64_t n) {
        auto *lower = reinterpret_cast<int16_t *>(to);
        for (int64_t i = 0; i < n; ++i) {
          float value = values[at + i];
          lower[i] = lowerHalf(value, fromFloat<BFloat16>(value).bits);
        }
      });
}

void joinMasters(const UnitState &unit, const Interval &interval,
                 const GetBytes &get, const Engine::Sink &sink) {
  auto room = static_cast<size_t>(std::min(interval.size(), kElements));
  std::vector<uint16_t> upper(room);
  std::vector<int16_t> lower(room);
  std::vector<float> masters(room);
  auto read = [&](uint8_t *to, const uint8_t *from, int64_t bytes) {
    get(from, bytes, [&](const uint8_t *piece, int64_t count) {
      std::memcpy(to, piece, static_cast<size_t>(count));
      to += count;
    });
  };
  forPieces(interval.size(), [&](int64_t at, int64_t n) {
    read(bytesOf(upper), upperHalves(unit, interval.begin + at), n * kHalf);
    read(bytesOf(lower), unit.address(StateArray::Master, interval.begin + at),
         n * kHalf);
    for (int64_t i = 0; i < n; ++i)
      masters[size_t(i)] = joinHalves(upper[size_t(i)], lower[size_t(i)]);
    sink(bytesOf(masters), n * int64_t(sizeof(float)));
  });
}

} // namespace shardonnx::rt::cuda
