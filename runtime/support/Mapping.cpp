// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// memfd and mmap, with guard pages.

#include "Mapping.h"
#include "Error.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Layout.h"
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace shardonnx::rt {

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}
FileDescriptor::~FileDescriptor() {
  if (fd >= 0)
    ::close(fd);
}
int FileDescriptor::release() { return std::exchange(fd, -1); }

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  std::swap(reserved, other.reserved);
  std::swap(reservedBytes, other.reservedBytes);
  return *this;
}
Mapping::~Mapping() {
  if (reserved)
    ::munmap(reserved, reservedBytes);
}

size_t pageBytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

namespace {

size_t roundToPages(size_t bytes) {
  return (bytes + pageBytes() - 1) / pageBytes() * pageBytes();
}

[[noreturn]] void failToMap(size_t bytes, const char *what) {
  fail("cannot map ", formatBytes(static_cast<int64_t>(bytes)), " for ", what,
       ": ", systemError(),
       "; use more ranks, a smaller --batch or --recompute=block");
}

} // namespace

static uint8_t *reserve(size_t inner, size_t &total, const char *what) {
  total = inner + 2 * pageBytes();
  void *at = ::mmap(nullptr, total, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    failToMap(inner, what);
  return static_cast<uint8_t *>(at);
}

Mapping Mapping::anonymous(size_t bytes, const char *what, bool tight) {
  Mapping m;
  if (bytes == 0)
    return m;
  size_t inner = roundToPages(bytes);
  uint8_t *at = reserve(inner, m.reservedBytes, what);
  m.reserved = at;
  uint8_t *begin = at + pageBytes();
  if (::mmap(begin, inner, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    failToMap(bytes, what);
  ::madvise(begin, inner, MADV_HUGEPAGE); // only a wish
  size_t used = static_cast<size_t>(
      alignTo(static_cast<int64_t>(bytes), kBufferAlignmentBytes));
  m.base = tight ? begin + (inner - used) : begin;
  m.bytes = bytes;
  return m;
}

Mapping Mapping::shared(int fd, int64_t offset, size_t bytes,
                        const char *what) {
  Mapping m;
  if (bytes == 0)
    return m;
  size_t inner = roundToPages(bytes);
  uint8_t *at = reserve(inner, m.reservedBytes, what);
  m.reserved = at;
  m.base = at + pageBytes();
  if (::mmap(m.base, inner, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             offset) == MAP_FAILED)
    failToMap(bytes, what);
  ::madvise(m.base, inner, MADV_HUGEPAGE); // only a wish
  m.bytes = bytes;
  return m;
}

void Mapping::populate() const {
#ifdef MADV_POPULATE_READ
  if (bytes > 0 && ::madvise(base, bytes, MADV_POPULATE_READ) == 0)
    return;
#endif
  for (size_t at = 0; at < bytes; at += pageBytes()) // before Linux 5.14
    (void)*const_cast<volatile uint8_t *>(base + at);
}

FileDescriptor createMemoryFile(int64_t bytes) {
  FileDescriptor fd(
      ::memfd_create("shardonnx", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd)
    fail("cannot create shared memory: ", systemError());
  if (::ftruncate(fd.get(), bytes) != 0)
    fail("cannot reserve ", formatBytes(static_cast<int64_t>(bytes)),
         " of shared memory: ", systemError());
  return fd;
}

} // namespace shardonnx::rt
