// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading files without trusting them: every read is checked against the
// file's size and its failure names the file. Nothing is mapped, so a file
// that shrinks under a run is an error and not a SIGBUS.

#ifndef SHARDONNX_RUNTIME_FILE_H
#define SHARDONNX_RUNTIME_FILE_H

#include "Mapping.h"
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace shardonnx::rt {

class File {
public:
  /// Opens for reading; `remedy` ends the message when that fails.
  File(const std::string &path, const std::string &remedy);
  /// Opens `name` inside `folder`, refusing every path that leads out of it.
  static File beneath(const std::string &folder, const std::string &name,
                      const std::string &remedy);

  const std::string &path() const { return name; }
  int64_t size() const { return bytes; }
  /// When it was last written, in nanoseconds since 1970.
  int64_t modified() const { return written; }
  void read(void *to, int64_t offset, int64_t length) const;

private:
  File(FileDescriptor fd, std::string path);
  void checkRegular(const std::string &remedy);
  FileDescriptor fd;
  std::string name;
  int64_t bytes = 0, written = 0;
};

/// What mends a file that is not whole.
inline constexpr const char *kCopyAgain = "copy or write it again";

/// Makes a folder and those above it. At the end those of them in which there
/// is nothing are removed.
class MadeFolders {
public:
  explicit MadeFolders(const std::string &path);
  ~MadeFolders();
  MadeFolders(const MadeFolders &) = delete;
  MadeFolders &operator=(const MadeFolders &) = delete;
  const std::error_code &error() const { return failure; }

private:
  std::vector<std::string> folders; // those below first
  std::error_code failure;
};

/// Takes the file or folder for this process alone, until it is closed; false
/// where another process has it. One that was just killed may still be at its
/// last write, so this waits for some seconds. Where a file system knows no
/// locks there is none.
bool lockWhole(int fd);

/// Makes the folder that a file to be written lies in, and those above it. That
/// it cannot be made is told by who then opens the file.
void makeFolderOf(const std::string &path);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_FILE_H
