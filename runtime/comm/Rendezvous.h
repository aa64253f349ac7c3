// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the ranks of a machine meet: at a Unix socket in the abstract namespace
// (nothing is left behind after kill -9), where rank 0 checks that all run the
// same program with the same options and hands out the shared memory. The
// connections stay open: one that closes early means that its rank died.

#ifndef SHARDONNX_RUNTIME_RENDEZVOUS_H
#define SHARDONNX_RUNTIME_RENDEZVOUS_H

#include "RankInfo.h"
#include "SharedMemory.h"
#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx::rt {

struct Peer {
  int rank;
  FileDescriptor connection;
};

struct Group {
  FileDescriptor memory;   // one file for everything that is shared
  std::vector<Peer> peers; // rank 0: all others; others: rank 0
};

struct MeetingRequest {
  std::string program; // the program's hash
  std::string options; // what must be equal on all ranks
  int64_t sharedBytes = 0;
  double timeoutSeconds = 30;
};

Group meet(const RankInfo &info, const MeetingRequest &request);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_RENDEZVOUS_H
