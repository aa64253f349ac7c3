// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See StreamedFile.h.

#include "StreamedFile.h"
#include "../support/Error.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

// Bytes that the disk is asked to take at a time, and how many may be on
// their way.
constexpr int64_t kPush = 8 << 20;
constexpr int64_t kOnTheirWay = 4 * kPush;

[[noreturn]] void failWriting(const std::string &path) {
  fail("cannot write '", path, "': ", systemError(),
       "; --save needs a folder with room that can be written");
}

} // namespace

StreamedFile::StreamedFile(const std::string &path)
    : path(path),
      fd(::open(path.c_str(),
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (!fd)
    failWriting(path);
}

void StreamedFile::write(const void *data, int64_t count) {
  const auto *from = static_cast<const uint8_t *>(data);
  bytes.add(data, static_cast<size_t>(count));
  while (count > 0) {
    ssize_t n =
        ::write(fd.get(), from, static_cast<size_t>(std::min(count, kPush)));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      failWriting(path);
    from += n;
    count -= n;
    written += n;
    if (written - pushed >= kPush)
      pushOut();
  }
}

// Hints: a file system that does not know them has its own way, and close()
// finds what went wrong.
void StreamedFile::pushOut() {
  ::sync_file_range(fd.get(), pushed, written - pushed, SYNC_FILE_RANGE_WRITE);
  pushed = written;
  if (pushed - settled < kOnTheirWay)
    return;
  int64_t n = pushed - settled - kOnTheirWay + kPush;
  ::sync_file_range(fd.get(), settled, n,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(fd.get(), settled, n, POSIX_FADV_DONTNEED);
  settled += n;
}

void StreamedFile::close() {
  if (::fsync(fd.get()) != 0)
    failWriting(path);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (::close(fd.release()) != 0)
    failWriting(path);
}

void writeDurably(const std::string &path, const std::string &text) {
  StreamedFile file(path);
  file.write(text.data(), static_cast<int64_t>(text.size()));
  file.close();
}

void syncFolder(const std::string &path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0)
    failWriting(path);
}

} // namespace shardonnx::rt
