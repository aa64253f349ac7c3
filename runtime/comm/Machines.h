// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the machines of a run meet: the first rank of each (its leader) connects
// by TCP to rank 0, which checks that all run the same program with the same
// options and tells everyone who is where. Where rank 0 listens is told by the
// launcher, or by the store of torchrun's agent. The connections stay open:
// one that closes early means that the process at its other end died.

#ifndef SHARDONNX_RUNTIME_MACHINES_H
#define SHARDONNX_RUNTIME_MACHINES_H

#include "Rendezvous.h"

namespace shardonnx::rt {

struct MachinesMet {
  MachineTable table;
  std::vector<Peer> peers; // rank 0: the other leaders; a leader: rank 0
};

/// Called by the leaders. `localRanks`: those of this machine, in order.
MachinesMet meetMachines(const RankInfo &info, const MeetingRequest &request,
                         const std::vector<int> &localRanks);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_MACHINES_H
