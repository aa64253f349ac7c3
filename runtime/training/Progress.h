// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the user sees while a run goes on: a line that renews itself on a
// terminal, else a line now and then; and the closing line.

#ifndef SHARDONNX_RUNTIME_PROGRESS_H
#define SHARDONNX_RUNTIME_PROGRESS_H

#include "Log.h"

namespace shardonnx::rt {

class Progress {
public:
  /// A run of steps begin + 1 to `steps`; `rateUnit` is what a second brings:
  /// tok/s, or samples/s where there are no tokens.
  Progress(int64_t steps, int64_t begin, std::string rateUnit);
  void step(const StepRecord &record);
  /// A line that stays.
  void note(const std::string &line) const;
  /// Warm-up steps are left out of the throughput.
  void close();

private:
  void flush() const;
  int64_t warmupSteps() const;
  std::string lineOf(const StepRecord &record) const;
  std::string rateText(double rate) const;

  const int64_t steps, begin;
  const std::string rateUnit;
  const bool terminal;
  double lastShown = 0;
  StepRecord last;
  double firstLoss = 0;
  int64_t skipped = 0;
  /// Of the steps after warm-up.
  double seconds = 0, tokens = 0, tflopSeconds = 0;
  mutable bool isUnread = false; // that lines get lost has been told
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PROGRESS_H
