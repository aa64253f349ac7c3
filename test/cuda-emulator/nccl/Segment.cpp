// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shared memory of a communicator.

#include "Segment.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace shardonnx::emulator;

static size_t pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

Segment *Segment::open(const std::string &name, int ranks) {
  size_t n = static_cast<size_t>(ranks);
  size_t areas = pages(64 + n * sizeof(RankArea));
  size_t boxes = pages(n * n * sizeof(Mailbox));
  size_t bytes = areas + boxes + n * kSlot + n * n * kMail;
  int fd = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return nullptr;
  // A new one is all zeros, which is how everything begins.
  void *base = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0)
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED)
    return nullptr;
  auto *made = new Segment;
  made->name = name;
  made->ranks = ranks;
  made->base = base;
  made->bytes = bytes;
  char *at = static_cast<char *>(base);
  made->present = reinterpret_cast<std::atomic<int32_t> *>(at);
  made->areas = reinterpret_cast<RankArea *>(at + 64);
  made->boxes = reinterpret_cast<Mailbox *>(at + areas);
  made->slots = at + areas + boxes;
  made->letters = made->slots + n * kSlot;
  return made;
}

Segment::~Segment() { munmap(base, bytes); }

void Segment::unlink() { shm_unlink(name.c_str()); }

bool shardonnx::emulator::processLives(int32_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return false;
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FILE *file = std::fopen(path.c_str(), "r");
  if (!file)
    return false;
  char text[512] = {};
  size_t count = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[count] = '\0';
  const char *end = std::strrchr(text, ')');
  return !end || (end[2] != 'Z' && end[2] != 'X');
}
