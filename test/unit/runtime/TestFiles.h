// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder for the files of a test, programs run in it, and what they say.

#ifndef SHARDONNX_TEST_TESTFILES_H
#define SHARDONNX_TEST_TESTFILES_H

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace shardonnx::test {

class Folder {
public:
  Folder(); // a fresh one, removed at the end
  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string write(const std::string &name, const std::string &bytes) const;
  const std::string path;
};

std::string readFile(const std::string &path);

struct Finished {
  int code = -1; // 128 + signal where one ended it
  std::string out, err;
};

// What a program said on standard error, line by line. Left out is what the
// machine has to say and not the run: that its cores are fewer than the ranks,
// and the emulated device's own lines.
std::vector<std::string> linesOf(const std::string &err);

// Seconds of a clock that is never set.
double now();
// Polls until it holds; false if it has not after minutes, which no machine
// needs, however loaded.
bool waitUntil(const std::function<bool()> &holds);
// A TCP port that nobody listens at, and none that connections are given:
// tests that run side by side do not meet.
uint16_t freePort();
// Whether a process has ended, be it that nobody has asked for its status.
bool hasEnded(int pid);

using Environment = std::vector<std::pair<std::string, std::string>>;

class Process {
public:
  Process(std::vector<std::string> command, const Folder &folder,
          Environment environment = {});
  int pid() const { return id; }
  // The processes that it started and that still run.
  std::vector<int> children() const;
  Finished wait();
  const std::string &output() const { return out; } // the file

private:
  int id = -1;
  std::string out, err;
};

// Bytes of numbers.
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(T));
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_TESTFILES_H
