// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which piece of work comes before which: vector clocks of streams,
// reachability in graphs. And, for every two bytes of device memory, who
// touched them last, so that work nothing orders is found however it happens to
// be timed.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_ORDER_H
#define SHARDONNX_TEST_CUDA_EMULATOR_ORDER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardonnx::emulator {

/// For each timeline (stream, or the host), how much of it has been seen.
using Clock = std::vector<uint64_t>;
void mergeClock(Clock &into, const Clock &from);

/// before[a][b]: node a comes before node b.
using Reachability = std::vector<std::vector<bool>>;

/// A piece of work.
struct Order {
  uint32_t id = 0;
  std::string name;
  uint32_t timeline = 0;
  uint64_t sequence = 0;
  /// What came before it.
  std::shared_ptr<const Clock> clock;
  /// Of a launch of a graph.
  std::shared_ptr<const Reachability> graph;
  uint32_t node = 0;
};

/// SHARDONNX_EMULATOR_RACECHECK is set.
bool raceChecking();

/// The work that this thread does; null outside of any.
std::shared_ptr<const Order> &currentOrder();
/// Gives it an id and makes it the thread's.
void beginOrder(Order order);

/// Notes that the current work touches memory; throws Fault if other work that
/// nothing orders does, too. `host` is where a device's bytes are.
void touchMemory(const char *host, size_t bytes, bool writes);

/// The same for a block of a kernel: an explanation, or nothing.
std::string touchFromBlock(const Order &order, uint64_t block, const char *host,
                           size_t bytes, bool writes, bool atomic,
                           bool blocksCommunicate);

/// Memory that was just allocated was touched by nobody.
void forgetMemory(const char *host, size_t bytes);
/// Where the memory of a device lies.
void addShadow(const char *base, size_t bytes);

} // namespace shardonnx::emulator

#endif
