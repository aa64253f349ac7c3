// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Documents.h.

#include "Documents.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt::cuda {

Documents::Documents(int64_t most, int64_t tokens, int64_t length,
                     uint8_t *device)
    : most(most), tokens(tokens), length(length),
      device(reinterpret_cast<const int32_t *>(device)) {}

const int32_t *Documents::offsets(int64_t stride) {
  auto found = std::find(strides.begin(), strides.end(), stride);
  if (found == strides.end()) {
    if (static_cast<int64_t>(strides.size()) == kDocumentStrides)
      return nullptr;
    found = strides.insert(found, stride);
  }
  return column(1 + (found - strides.begin()));
}

// A token whose first key is itself begins a document, and so does a sample.
void Documents::fill(const int32_t *firstKeys, uint8_t *tables) {
  std::vector<int64_t> begins;
  for (int64_t token = 0; token < tokens; ++token) {
    int64_t place = token % length;
    if (place == 0 || firstKeys[token] == place)
      begins.push_back(token);
  }
  documents = static_cast<int64_t>(begins.size());
  if (!fit())
    begins.clear();
  std::memset(tables, 0, static_cast<size_t>(documentTableBytes(most)));
  auto *lengths = reinterpret_cast<int32_t *>(tables);
  auto end = [&](size_t i) {
    return i + 1 < begins.size() ? begins[i + 1] : tokens;
  };
  for (size_t i = 0; i < begins.size(); ++i)
    lengths[i] = static_cast<int32_t>(end(i) - begins[i]);
  int32_t *to = lengths;
  for (int64_t stride : strides) {
    to += documentColumn(most);
    for (size_t i = 0; i < static_cast<size_t>(most) + 1; ++i)
      to[i] = static_cast<int32_t>(stride *
                                   (i < begins.size() ? begins[i] : tokens));
  }
}

} // namespace shardonnx::rt::cuda
