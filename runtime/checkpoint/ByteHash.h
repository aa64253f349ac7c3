// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A hash of every byte of a file, fast enough to go along with writing it: what
// tells a checkpoint's files from damaged and mixed up ones. It is not meant
// against people who want two files to have the same one.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_BYTEHASH_H
#define SHARDONNX_RUNTIME_CHECKPOINT_BYTEHASH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardonnx::rt {

/// The sum over words of eight bytes (little-endian, the last one filled with
/// zeros) of a well-mixed function of the word and its place, mixed with the
/// number of bytes. It does not depend on the pieces in which they come.
class ByteHash {
public:
  void add(const void *bytes, size_t count);
  /// Of all that has come so far.
  uint64_t value() const;

private:
  void addWord(const uint8_t *word);

  uint64_t sum = 0, place = 0, total = 0;
  uint8_t rest[sizeof(uint64_t)] = {}; // of a word that is not whole yet
  size_t held = 0;
};

uint64_t hashBytes(const std::string &bytes);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_BYTEHASH_H
