// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices that the program computed itself are checked where they are used:
// one outside of its axis ends the program with a line that says so.

#ifndef SHARDONNX_RUNTIME_CPU_OUTSIDEINDEX_H
#define SHARDONNX_RUNTIME_CPU_OUTSIDEINDEX_H

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <errno.h>

namespace shardonnx::rt {

/// The first index of a call that some thread found outside.
class OutsideIndex {
public:
  /// `index`, from the end of its axis when negative; -1 when it is outside.
  int64_t within(int64_t given, int64_t axis) {
    if (given >= 0 && given < axis)
      return given;
    if (given < 0 && given >= -axis)
      return given + axis;
    if (!found.exchange(true)) {
      index = given;
      size = axis;
    }
    return -1;
  }

  /// After the threads have met.
  void endProgramIfAny(const char *what) const {
    if (!found)
      return;
    std::fprintf(stderr,
                 "%s: error: index %lld of %s is outside of its axis of %lld "
                 "elements; mend the data that it comes from\n",
                 program_invocation_short_name, static_cast<long long>(index),
                 what, static_cast<long long>(size));
    std::fflush(nullptr);
    std::_Exit(1);
  }

private:
  std::atomic<bool> found{false};
  int64_t index = 0, size = 0;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_OUTSIDEINDEX_H
