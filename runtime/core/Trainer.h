// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The training loop of one rank.

#ifndef SHARDONNX_RUNTIME_TRAINER_H
#define SHARDONNX_RUNTIME_TRAINER_H

#include "Batch.h"
#include "Context.h"
#include "Log.h"
#include "Options.h"
#include "Program.h"
#include "Progress.h"
#include <memory>

namespace shardonnx::rt {

class Trainer {
public:
  Trainer(const Program &program, const Options &options, State &state,
          Control &control, int threads);
  void run();

private:
  double microbatches(int64_t step); // returns the loss of the step
  void setScalars(int64_t step, double denominator);
  double evaluate();
  void measureMemory(bool last);
  void report(int64_t step, double loss, double lr, double seconds,
              std::optional<double> evalLoss);
  bool evaluatesAfter(int64_t step) const;
  bool first() const { return control.rank() == 0; }

  const Program &program;
  const Options &options;
  State &state;
  Control &control;
  const Manifest &manifest;
  Communicator communicator;
  Context context;
  Batch batch;
  std::unique_ptr<DataSource> data, evalData;
  SampleOrder order;
  std::unique_ptr<Log> log;
  Progress progress;
  double nextMeasurement = 0;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRAINER_H
