// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A .safetensors file that is written from begin to end without filling the
// page cache: what was written goes to the disk at once, and its pages are
// given back when it is there.

#ifndef SHARDONNX_RUNTIME_CHECKPOINT_STREAMEDFILE_H
#define SHARDONNX_RUNTIME_CHECKPOINT_STREAMEDFILE_H

#include "../support/Mapping.h"
#include "ByteHash.h"
#include <cstdint>
#include <string>

namespace shardonnx::rt {

class StreamedFile {
public:
  /// Makes the file anew.
  explicit StreamedFile(const std::string &path);
  void write(const void *data, int64_t count);
  /// Waits until all of it is on the disk.
  void close();
  int64_t size() const { return written; }
  /// Of what was written, not of what the disk made of it.
  uint64_t hash() const { return bytes.value(); }

private:
  void pushOut();

  std::string path;
  FileDescriptor fd;
  ByteHash bytes;
  /// Bytes that were written, that the disk was asked to take, and that it has.
  int64_t written = 0, pushed = 0, settled = 0;
};

/// Writes `text` to a new file and waits until it is on the disk.
void writeDurably(const std::string &path, const std::string &text);
/// Waits until the folder's entries are on the disk.
void syncFolder(const std::string &path);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CHECKPOINT_STREAMEDFILE_H
