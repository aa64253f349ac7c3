// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What happens before a rank is a rank: `--nproc N` starts N processes and
// watches over them, and every process gets the threads it may use.

#ifndef SHARDONNX_RUNTIME_LAUNCH_H
#define SHARDONNX_RUNTIME_LAUNCH_H

#include "RankInfo.h"

namespace shardonnx::rt {

/// Runs `ranks` processes of this executable with the same arguments and
/// returns the exit code of the whole.
int launchRanks(int ranks, char **argv);

/// How many threads this rank has: SHARDONNX_NUM_THREADS, else its share of the
/// cores.
int threadsPerRank(const RankInfo &info);
/// The cores that the ranks of this machine share: those that they may run on,
/// or what a container's quota amounts to.
int availableCores();

/// Open MPI binds each of two ranks to a core unless it is told otherwise,
/// which leaves the others idle: gives them back, if nobody asked for the
/// binding.
void undoDefaultBinding(const RankInfo &info);

/// libgomp reads its environment only when it is loaded: where that is not what
/// this rank wants, starts the executable anew with a better one. Returns in
/// the process that has it.
void ensureThreadEnvironment(const RankInfo &info, char **argv);

/// Where several memory nodes have the cores: keeps this rank, which has not
/// started its threads yet, on the cores of its nodes, unless a launcher has
/// bound it.
void keepMemoryNear(const RankInfo &info);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_LAUNCH_H
