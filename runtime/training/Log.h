// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The JSONL log: one object a step, each written whole or reported as failed.

#ifndef SHARDONNX_RUNTIME_LOG_H
#define SHARDONNX_RUNTIME_LOG_H

#include "../support/Mapping.h"
#include <cstdint>
#include <optional>
#include <string>

namespace shardonnx::rt {

struct StepRecord {
  int64_t step = 0;
  double loss = 0, gradNorm = 0, lr = 0;
  int64_t tokens = 0;
  double stepMs = 0, tokensPerSecond = 0, tflops = 0;
  int64_t peakBytes = 0, pssBytes = 0;
  std::optional<int64_t> contextBytes;
  std::optional<double> mfu, evalLoss, lossScale;
  std::optional<double> perplexity; // of the evaluation
  bool skipped = false;             // the update was left out
  /// Of the checkpoint that became whole since the last record.
  std::optional<double> saveMs, saveStallMs;
  std::optional<double> offloadBytesPerSecond; // of rank 0
};

/// The log's name that means standard output.
constexpr const char *kStandardOutput = "-";

/// For a log on standard output: what is printed for people goes to standard
/// error from now on. Before anything is printed.
void reserveStandardOutput();

class Log {
public:
  /// "": no log. A run that goes on after step `step` keeps what an earlier one
  /// wrote of the steps up to it.
  explicit Log(const std::string &path, int64_t step = 0);
  void write(const StepRecord &record);
  void close();

private:
  /// Where what the file has of the steps up to this one ends.
  int64_t endOf(int64_t step) const;

  std::string path;
  FileDescriptor fd;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_LOG_H
