// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ByteHash.h.

#include "ByteHash.h"
#include "../core/SampleOrder.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr size_t kWord = sizeof(uint64_t);
constexpr uint64_t kStride = 0xd1342543de82ef95u;

uint64_t mixWord(uint64_t place, const uint8_t *word) {
  uint64_t value;
  std::memcpy(&value, word, kWord);
  return mixBits(place ^ value);
}

} // namespace

void ByteHash::addWord(const uint8_t *word) {
  sum += mixWord(place, word);
  place += kStride;
}

void ByteHash::add(const void *bytes, size_t count) {
  const auto *at = static_cast<const uint8_t *>(bytes);
  total += count;
  if (held > 0) {
    size_t n = std::min(kWord - held, count);
    std::copy(at, at + n, rest + held);
    held += n;
    at += n;
    count -= n;
    if (held < kWord)
      return;
    addWord(rest);
    held = 0;
  }
  for (; count >= kWord; count -= kWord, at += kWord)
    addWord(at);
  std::copy(at, at + count, rest);
  held = count;
}

uint64_t ByteHash::value() const {
  uint8_t last[kWord] = {};
  std::copy(rest, rest + held, last);
  uint64_t tail = held > 0 ? mixWord(place, last) : 0;
  return mixBits(sum + tail + total * kStride);
}

uint64_t hashBytes(const std::string &bytes) {
  ByteHash hash;
  hash.add(bytes.data(), bytes.size());
  return hash.value();
}

} // namespace shardonnx::rt
