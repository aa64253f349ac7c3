// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OffloadFile.h.

#include "OffloadFile.h"
#include "../support/Error.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Layout.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

// Not all file systems make files without a name.
int openUnnamed(const std::string &folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return fd;
  std::string name = folder + "/.shardonnx-offload-XXXXXX";
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0)
    ::unlink(name.c_str());
  return fd;
}

} // namespace

OffloadFile::OffloadFile(const std::string &folder, int64_t bytes) {
  if (bytes == 0)
    return;
  auto size = static_cast<int64_t>(alignTo(bytes, int64_t(pageBytes())));
  fd = FileDescriptor(openUnnamed(folder));
  if (!fd)
    fail("--offload-dir '", folder, "': cannot make a file: ", systemError(),
         "; give a folder that exists and can be written");
  int error = ::posix_fallocate(fd.get(), 0, size);
  if (error != 0) {
    errno = error;
    fail("--offload-dir '", folder, "': each rank takes ", formatBytes(size),
         ": ", systemError(), "; make room, or give another folder");
  }
  mapping = Mapping::shared(fd.get(), 0, static_cast<size_t>(size),
                            "offloaded slices");
}

bool OffloadFile::holds(const void *begin) const {
  auto *at = static_cast<const uint8_t *>(begin);
  return at && at >= data() && at < data() + mapping.size();
}

void OffloadFile::prefetch(const void *begin, int64_t bytes) const {
  if (holds(begin))
    ::madvise(const_cast<void *>(begin), static_cast<size_t>(bytes),
              MADV_WILLNEED); // only a wish
}

// The pages stay in the kernel's cache until they are written and somebody
// needs the memory; they are this process's no more.
void OffloadFile::evict(const void *begin, int64_t bytes) const {
  if (!holds(begin))
    return;
  auto offset = static_cast<const uint8_t *>(begin) - data();
  ::sync_file_range(fd.get(), offset, bytes, SYNC_FILE_RANGE_WRITE);
  ::madvise(const_cast<void *>(begin), static_cast<size_t>(bytes),
            MADV_DONTNEED);
}

} // namespace shardonnx::rt
