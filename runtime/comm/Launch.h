// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What happens before a rank is a rank: `--nproc N` starts N processes and
// watches over them, and every process gets the threads it may use.

#ifndef SHARDONNX_RUNTIME_LAUNCH_H
#define SHARDONNX_RUNTIME_LAUNCH_H

namespace shardonnx::rt {

// Runs `ranks` processes of this executable with the same arguments and
// returns the exit code of the whole.
int launchRanks(int ranks, char **argv);

// How many threads a rank has when `localRanks` share the machine.
int threadsPerRank(int localRanks);
int availableCores();

// libgomp reads its environment only when it is loaded: where that is not what
// this rank wants, starts the executable anew with a better one. Returns in
// the process that has it.
void ensureThreadEnvironment(int localRanks, char **argv);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_LAUNCH_H
