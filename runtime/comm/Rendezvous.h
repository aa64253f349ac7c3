// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the ranks meet. Those of a machine: at a Unix socket in the abstract
// namespace (nothing is left behind after kill -9), where the machine's first
// rank, its leader, checks that all run the same program with the same options
// and hands out the shared memory. The leaders of several machines: Machines.h.
// The connections stay open: one that closes early means that its rank died.

#ifndef SHARDONNX_RUNTIME_RENDEZVOUS_H
#define SHARDONNX_RUNTIME_RENDEZVOUS_H

#include "../support/Fnv1a.h"
#include "../support/Mapping.h"
#include "RankInfo.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx::rt {

struct Peer {
  int rank;
  FileDescriptor connection;
  bool remote = false; // the leader of another machine
};

/// Which rank runs where.
struct MachineTable {
  std::vector<uint16_t> machineOf; // [rank], numbered by their first ranks
  std::vector<std::string> hosts;  // [machine]

  std::vector<int> ranksOf(size_t machine) const;
  const std::string &hostOf(int rank) const { return hosts[machineOf[rank]]; }
  std::string pack() const;
  static std::optional<MachineTable> unpack(const std::string &bytes,
                                            int worldSize);
};

struct Group {
  FileDescriptor memory; // one file for everything that a machine's ranks share
  /// A leader: its machine's other ranks, then (rank 0) the other leaders or
  /// (another leader) rank 0. Other ranks: their leader.
  std::vector<Peer> peers;
  MachineTable machines;

  std::vector<int> localRanks(int rank) const {
    return machines.ranksOf(machines.machineOf[static_cast<size_t>(rank)]);
  }
};

struct MeetingRequest {
  std::string program; // the program's hash
  std::string options; // what must be equal on all ranks
  int64_t sharedBytes = 0;
  double timeoutSeconds = 30;          // for the ranks of a machine
  double machinesTimeoutSeconds = 120; // for machines, which start one by one
};

Group meet(const RankInfo &info, const MeetingRequest &request);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_RENDEZVOUS_H
