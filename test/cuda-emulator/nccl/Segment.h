// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shared memory through which the ranks of a communicator meet: who is
// there, what each does next, and room for pieces of data.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_SEGMENT_H
#define SHARDONNX_TEST_CUDA_EMULATOR_SEGMENT_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shardonnx::emulator {

/// What a rank does, for the others to compare.
struct Post {
  int32_t call, type, reduction, root;
  uint64_t count;
};

struct RankArea {
  std::atomic<int32_t> pid;
  /// The rank has destroyed its communicator.
  std::atomic<int32_t> left;
  /// Times it arrived at barriers of streams, and of the host.
  std::atomic<uint64_t> streamStep, hostStep;
  Post post;
  /// Of host calls: colour, key, a new identity, the device.
  int64_t host[4];
};

/// A box from one rank to another.
struct Mailbox {
  std::atomic<uint64_t> written, read;
  uint32_t bytes;
};

class Segment {
public:
  static constexpr size_t kSlot = size_t(1) << 20;
  static constexpr size_t kMail = size_t(64) << 10;

  /// Opens or makes it; null and errno on failure.
  static Segment *open(const std::string &name, int ranks);
  ~Segment();

  RankArea &rank(int r) { return areas[r]; }
  char *slot(int r) { return slots + static_cast<size_t>(r) * kSlot; }
  Mailbox &mailbox(int from, int to) { return boxes[from * ranks + to]; }
  char *mail(int from, int to) {
    return letters + static_cast<size_t>(from * ranks + to) * kMail;
  }
  std::atomic<int32_t> &arrived() { return *present; }
  void unlink();

private:
  Segment() = default;
  std::string name;
  int ranks = 0;
  void *base = nullptr;
  size_t bytes = 0;
  std::atomic<int32_t> *present = nullptr;
  RankArea *areas = nullptr;
  Mailbox *boxes = nullptr;
  char *slots = nullptr, *letters = nullptr;
};

/// Is the process there, and not merely waiting to be reaped?
bool processLives(int32_t pid);

} // namespace shardonnx::emulator

#endif
