// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file without a name that is mapped into memory (--offload-dir): slices lie
// in it that only the update reads and writes. The kernel reads what is
// expected ahead of its use, and writes behind what is left.

#ifndef SHARDONNX_RUNTIME_CPU_OFFLOADFILE_H
#define SHARDONNX_RUNTIME_CPU_OFFLOADFILE_H

#include "../support/Mapping.h"
#include <string>

namespace shardonnx::rt {

class OffloadFile {
public:
  OffloadFile() = default;
  /// All of its room is taken at once, so that a full disk is told at the
  /// start. The contents are zero. No bytes are no file.
  OffloadFile(const std::string &folder, int64_t bytes);

  uint8_t *data() const { return mapping.data(); }
  /// Whether the memory is in the file; the calls below do nothing where it is
  /// not. Ranges begin at a multiple of a page.
  bool holds(const void *begin) const;
  void prefetch(const void *begin, int64_t bytes) const;
  void evict(const void *begin, int64_t bytes) const;

private:
  FileDescriptor fd;
  Mapping mapping;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_OFFLOADFILE_H
