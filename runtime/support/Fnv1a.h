// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A short hash of texts that must be equal (Fowler, Noll and Vo).

#ifndef SHARDONNX_RUNTIME_FNV1A_H
#define SHARDONNX_RUNTIME_FNV1A_H

#include <cstdint>
#include <string>

namespace shardonnx::rt {

inline uint64_t fnv1a(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_FNV1A_H
