// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a rank's device and its links can do, and how long work and collectives
// take on them. docs/inspect.md says where the numbers come from. No MLIR here.

#ifndef SHARDONNX_COST_DEVICE_H
#define SHARDONNX_COST_DEVICE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

/// What joins ranks. A collective takes a step for each rank but one, each with
/// this latency, and each rank sends at this rate.
struct Link {
  double bytesPerSecond = 0;
  double stepSeconds = 0;
};

struct Device {
  std::string name;
  double f32Flops = 0;  // a second, in matrix products, as reached
  double halfFlops = 0; // with bf16 or f16 operands
  double memoryBytesPerSecond = 0;
  Link within, across;          // of one machine, between machines
  double collectiveSeconds = 0; // before the first step
  int64_t perMachine = 0;       // ranks; 0: all of them
  bool sharedMemory = false;    // ranks read each other's memory: no steps

  /// How long products and everything else take, whichever is longer.
  double workSeconds(double flops, double bytes, bool half) const;
  /// An all-gather to, or a reduce-scatter from, `bytes` on each of `ranks`.
  double gatherSeconds(double bytes, int64_t ranks) const;
  double reduceScatterSeconds(double bytes, int64_t ranks) const;
  double allReduceSeconds(double bytes, int64_t ranks) const;
  /// What a collective takes beside its bytes.
  double latencySeconds(int64_t ranks) const;
  /// Bytes of a gathered unit whose transfer takes as long as the latency: of
  /// two neighbours that are gathered one after the other, a smaller one is
  /// better gathered with the other.
  int64_t latencyBytes(int64_t ranks) const;

private:
  Link linkOf(int64_t ranks) const;
};

/// One of deviceNames(); a CPU has one thread.
std::optional<Device> deviceNamed(const std::string &name);
std::vector<std::string> deviceNames();

/// A rank of `threads` threads on a CPU.
Device cpuDevice(int threads);

/// The device that a program is for: of --target=cuda the one of its oldest
/// architecture, sm_80 an A100, later ones an H100.
Device deviceOfProgram(bool cuda, const std::string &arch, int threads);

} // namespace shardonnx

#endif // SHARDONNX_COST_DEVICE_H
