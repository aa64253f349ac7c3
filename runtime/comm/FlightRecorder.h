// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last collectives of every rank, in memory that the ranks of a machine
// share: whoever is left when a run ends badly writes them to a file, which
// `shardonnx inspect` reads.

#ifndef SHARDONNX_RUNTIME_FLIGHTRECORDER_H
#define SHARDONNX_RUNTIME_FLIGHTRECORDER_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace shardonnx::rt {

class Control;

/// Times are nanoseconds of CLOCK_MONOTONIC, 0: not yet.
struct FlightEntry {
  std::atomic<uint64_t> number; // from 1; 0: none
  std::atomic<uint32_t> activity, unit;
  std::atomic<int64_t> step, bytes, issued, begun, ended;
};

/// One rank's, of which the oldest give way. Zero is its start.
struct alignas(64) FlightRing {
  static constexpr size_t kEntries = 128;
  std::atomic<uint64_t> issued;
  FlightEntry entries[kEntries];
};

/// Of one rank. One thread of it issues; any may say how far a collective is.
class FlightRecorder {
public:
  explicit FlightRecorder(FlightRing *ring) : ring(ring) {}

  /// Returns the collective's number, for the other two.
  uint64_t issue(uint32_t activity, size_t unit, int64_t step, int64_t bytes);
  void begin(uint64_t number);
  void end(uint64_t number);

private:
  FlightEntry *find(uint64_t number);
  FlightRing *ring;
};

/// What the error's line says behind the cause: where the collectives of this
/// machine's ranks now are, or "" when none has run.
std::string writeFlightRecord(Control &control, const std::string &path,
                              int failedRank, const std::string &cause);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_FLIGHTRECORDER_H
