// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that the runtime maps: anonymous for one process, or a part of the
// memfd that the ranks of a machine share. Each mapping lies between guard
// pages, so that running over its ends is a fault and not a wrong number.

#ifndef SHARDONNX_RUNTIME_MAPPING_H
#define SHARDONNX_RUNTIME_MAPPING_H

#include <cstddef>
#include <cstdint>

namespace shardonnx::rt {

/// A file descriptor that closes itself.
class FileDescriptor {
public:
  explicit FileDescriptor(int fd = -1) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd(other.release()) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept;
  ~FileDescriptor();
  int get() const { return fd; }
  int release();
  explicit operator bool() const { return fd >= 0; }

private:
  int fd;
};

class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept { *this = static_cast<Mapping &&>(other); }
  Mapping &operator=(Mapping &&other) noexcept;
  ~Mapping();

  /// Zero-filled memory of this process. `tight` puts its end, rather than its
  /// begin, at a guard page (rounded to a buffer's alignment).
  static Mapping anonymous(size_t bytes, const char *what, bool tight = false);
  /// The part [offset, offset + bytes) of a shared file.
  static Mapping shared(int fd, int64_t offset, size_t bytes, const char *what);

  uint8_t *data() const { return base; }
  size_t size() const { return bytes; }

  /// Maps all pages, as reading them does.
  void populate() const;

private:
  uint8_t *base = nullptr;
  size_t bytes = 0;
  void *reserved = nullptr;
  size_t reservedBytes = 0;
};

size_t pageBytes();
/// A memory file of this size; its pages appear at first touch.
FileDescriptor createMemoryFile(int64_t bytes);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MAPPING_H
