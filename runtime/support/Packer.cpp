// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Packer.h. Where bitsandbytes' devices round differently, its CUDA
// kernels are followed; the mean of the scales, which torch.mean adds up in
// another order on each device, is the exact one.

#include "Packer.h"
#include "Half.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardonnx::rt {
namespace {

// Of a run without any magnitude: its reciprocal stays finite.
constexpr float kLeastScale = 1e-38f;

// The borders between neighbours of a rising table; what lies on one belongs to
// the lower of the two.
template <size_t Count> struct Borders {
  float values[Count - 1];

  explicit Borders(const float (&table)[Count]) {
    for (size_t i = 0; i + 1 < Count; ++i)
      values[i] = (table[i] + table[i + 1]) / 2;
  }
  uint8_t indexOf(float value) const {
    return static_cast<uint8_t>(
        std::lower_bound(std::begin(values), std::end(values), value) -
        std::begin(values));
  }
};

float largestOf(const float *values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

float clamped(float value) { return std::min(std::max(value, -1.0f), 1.0f); }

} // namespace

Packer::Packer(Packing packing, int64_t rows, int64_t columns)
    : packing(packing), elements(rows * columns),
      run(packing == Packing::Int8 ? columns : kPackedBlock),
      layout(packedLayout(packing, rows, columns)),
      bytes(static_cast<size_t>(layout.bytes)) {
  pending.reserve(static_cast<size_t>(run));
  if (packing == Packing::NF4)
    largest.reserve(static_cast<size_t>(blocksOf(elements)));
}

void Packer::add(const float *values, int64_t count) {
  const float *end = values + count;
  while (values < end) {
    int64_t wanted =
        std::min(run, elements - done) - static_cast<int64_t>(pending.size());
    int64_t n = std::min<int64_t>(wanted, end - values);
    if (pending.empty() && n == wanted) {
      encode(values, n);
    } else {
      pending.insert(pending.end(), values, values + n);
      if (n == wanted) {
        encode(pending.data(), static_cast<int64_t>(pending.size()));
        pending.clear();
      }
    }
    values += n;
  }
}

std::vector<uint8_t> Packer::finish() {
  if (packing == Packing::NF4)
    encodeScales();
  return std::move(bytes);
}

void Packer::encode(const float *values, int64_t count) {
  if (packing == Packing::NF4)
    encodeBlock(values, count);
  else if (packing == Packing::Int8)
    encodeRow(values, count);
  else
    for (int64_t i = 0; i < count; ++i) {
      BFloat16 half = fromFloat<BFloat16>(values[i]);
      std::memcpy(bytes.data() + (done + i) * 2, &half, sizeof(half));
    }
  done += count;
}

void Packer::encodeBlock(const float *values, int64_t count) {
  static constexpr NF4Table kTable;
  static const Borders<16> borders(kTable.values);
  float scale = largestOf(values, count);
  largest.push_back(scale);
  float inverse = 1.0f / std::max(scale, kLeastScale);
  for (int64_t i = 0; i < count; ++i) {
    unsigned code = borders.indexOf(clamped(values[i] * inverse));
    uint8_t &byte = bytes[static_cast<size_t>((done + i) / 2)];
    byte = static_cast<uint8_t>(byte | (i % 2 ? code : code << 4));
  }
}

void Packer::encodeRow(const float *values, int64_t count) {
  float scale = largestOf(values, count);
  putFloat(layout.scales + done / run * 4, scale);
  float factor = 1.0f / std::max(scale, kLeastScale) * 127.0f;
  for (int64_t i = 0; i < count; ++i) {
    float code = std::nearbyint(values[i] * factor);
    bytes[static_cast<size_t>(done + i)] =
        static_cast<uint8_t>(static_cast<int8_t>(code));
  }
}

// The scales of a block, less their mean, are quantised in their turn.
void Packer::encodeScales() {
  static constexpr DynamicMap kMap;
  static const Borders<256> borders(kMap.values);
  double sum = 0;
  for (float scale : largest)
    sum += static_cast<double>(scale);
  float mean = static_cast<float>(
      sum / static_cast<double>(std::max<size_t>(largest.size(), 1)));
  for (float &scale : largest)
    scale -= mean;
  auto count = static_cast<int64_t>(largest.size());
  for (int64_t begin = 0; begin < count; begin += kPackedGroup) {
    int64_t n = std::min(kPackedGroup, count - begin);
    float scale = largestOf(&largest[static_cast<size_t>(begin)], n);
    putFloat(layout.scales + begin / kPackedGroup * 4, scale);
    float inverse = 1.0f / std::max(scale, kLeastScale);
    for (int64_t i = begin; i < begin + n; ++i)
      bytes[static_cast<size_t>(layout.blockScales + i)] =
          borders.indexOf(clamped(largest[static_cast<size_t>(i)] * inverse));
  }
  putFloat(layout.scales + groupsOf(elements) * 4, mean);
}

void Packer::putFloat(int64_t at, float value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

} // namespace shardonnx::rt
