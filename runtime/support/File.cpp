// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See File.h.

#include "File.h"
#include "Error.h"
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace shardonnx::rt {
namespace {

// Whether some component is "..", or the path is absolute.
bool leadsOut(const std::string &path) {
  if (path.empty() || path[0] == '/')
    return true;
  size_t begin = 0;
  while (begin <= path.size()) {
    size_t end = std::min(path.find('/', begin), path.size());
    if (path.compare(begin, end - begin, "..") == 0)
      return true;
    begin = end + 1;
  }
  return false;
}

// Opening a named pipe would wait for who writes to it; of a regular file the
// flag changes nothing.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

const char *kindOf(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFDIR:
    return "a folder";
  case S_IFIFO:
    return "a pipe";
  case S_IFSOCK:
    return "a socket";
  default:
    return "a device";
  }
}

} // namespace

File::File(FileDescriptor fd, std::string path)
    : fd(std::move(fd)), name(std::move(path)) {}

File::File(const std::string &path, const std::string &remedy)
    : fd(::open(path.c_str(), kOpenFlags)), name(path) {
  if (!fd)
    fail("cannot open '", path, "': ", systemError(), "; ", remedy);
  checkRegular(remedy);
}

File File::beneath(const std::string &folder, const std::string &name,
                   const std::string &remedy) {
  auto failOutside = [&] {
    fail("the path '", name, "' leads out of the folder '", folder,
         "', which no path or link may: put the file itself there");
  };
  if (leadsOut(name))
    failOutside();
  FileDescriptor dir(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir)
    fail("cannot open the folder '", folder, "': ", systemError(), "; ",
         remedy);
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH; // symbolic links may not lead out either
  int fd = static_cast<int>(
      ::syscall(SYS_openat2, dir.get(), name.c_str(), &how, sizeof(how)));
  if (fd < 0 && errno == ENOSYS) // before Linux 5.6
    fd = ::openat(dir.get(), name.c_str(), kOpenFlags);
  if (fd < 0 && errno == EXDEV)
    failOutside();
  if (fd < 0)
    fail("cannot open '", folder, "/", name, "': ", systemError(), "; ",
         remedy);
  File file(FileDescriptor(fd), folder + "/" + name);
  file.checkRegular(remedy);
  return file;
}

void File::checkRegular(const std::string &remedy) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    fail("cannot read '", name, "': ", systemError(), "; ", remedy);
  if (!S_ISREG(status.st_mode))
    fail("'", name, "' is ", kindOf(status.st_mode), ", not a regular file; ",
         remedy);
  bytes = status.st_size;
  written =
      int64_t(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

void File::read(void *to, int64_t offset, int64_t length) const {
  if (offset < 0 || length < 0 || offset > bytes - length)
    fail("'", name, "' is truncated: bytes ", offset, "…", offset + length,
         " are wanted, it has ", bytes, "; ", kCopyAgain);
  auto *out = static_cast<uint8_t *>(to);
  while (length > 0) {
    ssize_t n = ::pread(fd.get(), out, static_cast<size_t>(length), offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      fail("cannot read '", name, "': ", systemError());
    if (n == 0)
      fail("'", name, "' was truncated while it was read, at byte ", offset,
           "; ", kCopyAgain);
    out += n;
    offset += n;
    length -= n;
  }
}

MadeFolders::MadeFolders(const std::string &path) {
  namespace fs = std::filesystem;
  fs::path folder = (fs::path(path) / "").parent_path();
  std::error_code ignored;
  for (; !folder.empty() && !fs::exists(folder, ignored);
       folder = folder.parent_path())
    folders.push_back(folder.string());
  fs::create_directories(path, failure);
}

MadeFolders::~MadeFolders() {
  for (const std::string &folder : folders)
    if (::rmdir(folder.c_str()) != 0)
      return; // something is in it
}

bool lockWhole(int fd) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return true;
    ::usleep(100'000);
  }
  return false;
}

void makeFolderOf(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty())
    std::filesystem::create_directories(folder, ignored);
}

} // namespace shardonnx::rt
