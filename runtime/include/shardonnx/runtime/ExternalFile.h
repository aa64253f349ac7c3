// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of weights beside a model (ONNX's external data), as a program
// remembers them: the compiler writes it down, a run compares. Together they
// may be larger than what anyone wants to read twice, so of many bytes only
// blocks are hashed; that a file was written since is then all that is known of
// the rest.

#ifndef SHARDONNX_RUNTIME_EXTERNALFILE_H
#define SHARDONNX_RUNTIME_EXTERNALFILE_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Sha256.h"
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx {

struct ExternalFile {
  std::string name; // relative to the model's folder
  int64_t bytes = 0;
  int64_t modified = 0; // nanoseconds since 1970
  std::string sha256;
};

struct ExternalFiles {
  std::vector<ExternalFile> files;
  int64_t hashedEvery = 0; // bytes from one hashed block to the next; 0: all
};

constexpr int64_t kHashedBlock = 4096;

// Of files of so many bytes together: all of them, or 4096 blocks, of which a
// disk reads some thousands within a second.
constexpr int64_t hashedEvery(int64_t bytes) {
  constexpr int64_t kWhole = int64_t(256) << 20, kBlocks = 4096;
  return bytes <= kWhole
             ? 0
             : alignTo((bytes + kBlocks - 1) / kBlocks, kHashedBlock);
}

// What a file of `bytes` bytes is known by. read(to, at, count) reads some of
// it, and says whether it could; the result is empty where it could not.
template <typename Read>
std::string hashExternalFile(int64_t bytes, int64_t every, Read read) {
  constexpr int64_t kPart = int64_t(1) << 20;
  rt::Sha256 hash;
  int64_t block = every ? kHashedBlock : kPart;
  std::vector<uint8_t> part(static_cast<size_t>(block));
  auto add = [&](int64_t at) {
    int64_t count = std::min(block, bytes - at);
    if (!read(part.data(), at, count))
      return false;
    hash.update(part.data(), static_cast<size_t>(count));
    return true;
  };
  for (int64_t at = 0; at < bytes; at += every ? every : block)
    if (!add(at))
      return {};
  if (every && !add(std::max<int64_t>(bytes - block, 0)))
    return {};
  return hash.hex();
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_EXTERNALFILE_H
