// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How somebody else's framework executes a step: which share of the device's
// figures it reaches, and what it moves through memory where it fuses nothing.
// docs/plan.md says how the figures are fitted. No MLIR here.

#ifndef SHARDONNX_COST_EXECUTION_H
#define SHARDONNX_COST_EXECUTION_H

#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

struct Execution {
  std::string name, title;
  bool eager = false;    // each op is a kernel that reads and writes memory
  std::string attention; // whose rates of the device's attention
  // Of the device's rates, over a whole training run.
  double productShare = 1, attentionShare = 1, memoryShare = 1;
  double unhidden = 0;       // of a collective's time, that work is delayed by
  double stepSeconds = 0;    // of the host, once a step
  double optimizerBytes = 0; // moved for each element that a rank owns
  double logitBytes = 0;     // moved for each logit by the loss
};

/// What one microbatch moves through memory beside products and attention.
struct EagerTraffic {
  struct Unit {
    double forward = 0, backward = 0; // bytes
  };
  std::vector<Unit> units; // as the manifest's
  double logits = 0;       // elements
};

/// One of executionNames(), which the program brings along.
std::optional<Execution> executionNamed(const std::string &name);
std::vector<std::string> executionNames();
/// The same of a file's content; `error` is one line.
std::optional<Execution> parseExecution(const std::string &json,
                                        std::string &error);

} // namespace shardonnx

#endif // SHARDONNX_COST_EXECUTION_H
