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
  /// Bytes that it takes; nothing: not known, the plan's own stand for them.
  struct Memory {
    double state = 0;         // of each element that a rank owns
    double logit = 0;         // of each logit, while the loss is computed
    double norm = 0;          // kept of each element that an RMS norm reads
    bool repeatsKeys = false; // keys and values are copied for every head
  };
  std::optional<Memory> memory;
};

/// What one microbatch moves through memory beside products and attention, and
/// what is kept of it for backward.
struct EagerTraffic {
  struct Unit {
    double forward = 0, backward = 0; // bytes
    double kept = 0;     // bytes for backward, but for what norms read
    double normed = 0;   // elements that norms read
    double repeated = 0; // bytes of keys and values that are copied
    double input = 0;    // bytes from other units
    double selected = 0; // bytes of attention, and of every other product
    double again = 0;    // share of the products that these do not keep
    bool block = false;  // has attention, and is gathered by itself
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
