// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See StateHash.h.

#include "StateHash.h"
#include "../core/SampleOrder.h"
#include "../support/Half.h"
#include "StoredParts.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

uint64_t keyOf(const std::string &name, StateArray array) {
  uint64_t key = mixBits(static_cast<uint64_t>(array));
  for (unsigned char c : name)
    key = mixBits(key ^ c);
  return key;
}

template <typename T>
uint64_t hashRun(uint64_t key, int64_t index, const uint8_t *bytes,
                 int64_t count) {
  constexpr uint64_t kStride = 0xd1342543de82ef95u;
  uint64_t sum = 0, place = key + static_cast<uint64_t>(index) * kStride;
  for (int64_t i = 0; i < count; ++i, place += kStride) {
    T value;
    std::memcpy(&value, bytes + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    float wide = toFloat(value);
    uint32_t bits;
    std::memcpy(&bits, &wide, sizeof(bits));
    sum += mixBits(place ^ bits);
  }
  return sum;
}

} // namespace

SectionHash::SectionHash(const std::vector<Manifest::Param> &params,
                         StateArray array, ShxDType dtype, int64_t matrixLength,
                         int64_t tensor, int64_t length)
    : dtype(dtype) {
  for (const Manifest::Param &param : params)
    if (param.trainable == (array != StateArray::Frozen)) {
      uint64_t key = keyOf(param.name, array);
      if (param.split && (isScale(array) || param.packed)) {
        addParts(param, array, key, tensor, length);
        continue;
      }
      if (param.split) {
        forStored(param, tensor, length, {0, param.wholeElements()},
                  [&](int64_t begin, int64_t at, int64_t count) {
                    places.push_back({begin, begin + count, key, at});
                  });
        continue;
      }
      Interval stored = storedInterval(
          array, {param.offset, param.offset + param.length()}, matrixLength);
      if (stored.size() > 0)
        places.push_back({stored.begin, stored.end, key, 0});
    }
  std::sort(places.begin(), places.end(),
            [](const Place &a, const Place &b) { return a.begin < b.begin; });
}

void SectionHash::addParts(const Manifest::Param &param, StateArray array,
                           uint64_t key, int64_t tensor, int64_t length) {
  Interval here =
      storedInterval(array, {param.offset, param.offset + param.length()},
                     /*matrixLength=*/0);
  for (int64_t part = 0; part < tensor; ++part) {
    int64_t begin = sectionBegin(array, part, length);
    places.push_back(
        {begin + here.begin, begin + here.end, key, part * here.size()});
  }
}

uint64_t SectionHash::of(const uint8_t *bytes, int64_t begin,
                         int64_t count) const {
  uint64_t sum = 0;
  auto place =
      std::partition_point(places.begin(), places.end(),
                           [&](const Place &p) { return p.end <= begin; });
  for (; place != places.end() && place->begin < begin + count; ++place) {
    int64_t from = std::max(begin, place->begin);
    int64_t n = std::min(begin + count, place->end) - from;
    const uint8_t *at = bytes + (from - begin) * dtypeBytes(dtype);
    int64_t index = place->index + from - place->begin;
    sum += dtype == SHX_I8     ? hashRun<int8_t>(place->key, index, at, n)
           : dtype == SHX_BF16 ? hashRun<BFloat16>(place->key, index, at, n)
           : dtype == SHX_F16  ? hashRun<Float16>(place->key, index, at, n)
                               : hashRun<float>(place->key, index, at, n);
  }
  return sum;
}

} // namespace shardonnx::rt
