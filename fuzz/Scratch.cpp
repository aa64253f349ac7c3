// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Scratch.h. A machine that cannot write ends the run: nothing would be
// tested.

#include "Scratch.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace shardonnx::fuzz {
namespace {

[[noreturn]] void giveUp(const std::string &what) {
  std::perror(what.c_str());
  std::exit(1);
}

std::string makeFolder() {
  std::string parent = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string path = parent + "/shardonnx-fuzz-XXXXXX";
  if (!::mkdtemp(path.data()))
    giveUp(path);
  return path;
}

} // namespace

Scratch::Scratch() : folder(makeFolder()) {}

Scratch::~Scratch() {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

std::string Scratch::write(const std::string &name, const void *bytes,
                           size_t size) {
  std::string path = folder + "/" + name;
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    giveUp(path);
  const char *from = static_cast<const char *>(bytes);
  while (size > 0) {
    ssize_t written = ::write(fd, from, size);
    if (written <= 0)
      giveUp(path);
    from += written;
    size -= static_cast<size_t>(written);
  }
  ::close(fd);
  return path;
}

} // namespace shardonnx::fuzz
