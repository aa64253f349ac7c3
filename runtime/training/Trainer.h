// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The training loop of one rank.

#ifndef SHARDONNX_RUNTIME_TRAINER_H
#define SHARDONNX_RUNTIME_TRAINER_H

#include "../checkpoint/Restore.h"
#include "../checkpoint/Saver.h"
#include "../core/Engine.h"
#include "../core/TrainState.h"
#include "Batch.h"
#include "Evaluation.h"
#include "Log.h"
#include "LossScale.h"
#include "Progress.h"
#include "TensorBoard.h"
#include "TraceFile.h"
#include <deque>
#include <limits>
#include <memory>

namespace shardonnx::rt {

class Trainer {
public:
  /// Goes on from what was restored, else begins. `saver`, `trace` and
  /// `traceFile`, which writes it, may be null.
  Trainer(const Options &options, Engine &engine, Control &control,
          Exchange &exchange, const std::optional<Restored> &restored,
          Saver *saver, Trace *trace, TraceFile *traceFile);
  void run();

private:
  /// A step that the engine may still be at work on.
  struct Outstanding {
    int64_t step, samples; // samples: consumed before it
    double denominator, lossScale;
    /// No label counts: the loss is 0 / 0, and there is nothing to learn.
    bool empty() const { return !(denominator > 0); }
  };
  std::string describeBase() const;
  void compareData(const std::optional<Restored> &restored);
  void placeTrace();
  void endTrace();
  void checkData();
  void trainStep(int64_t step);
  void issue(int64_t step);
  void issueMicrobatches(int64_t consumed);
  std::vector<int64_t> samplesOf(int64_t consumed, int64_t a) const;
  Scalars scalarsOf(int64_t step, double denominator) const;
  /// While a step may be skipped, no later one is issued.
  int stepsAhead() const;
  /// What the result says about the loss scale, and whether the run goes on.
  void checkResult(const Outstanding &step, const StepResult &result);
  [[noreturn]] void stopAt(const Outstanding &step, const StepResult &result);
  /// Takes results until at most `ahead` steps are outstanding.
  void collect(int ahead);
  void report(const Outstanding &step, const StepResult &result);
  void save(int64_t step);
  void reportSave(const std::optional<SaveRecord> &saved);
  void reportStop() const;
  /// Whether the run goes on, and which checkpoint stays.
  void judge(int64_t step, double evalLoss);
  bool evaluatesAfter(int64_t step) const;
  double evaluate();
  int64_t memoryBytes() const;
  void printProfile() const;
  bool first() const { return engine.rank() == 0; }

  const Options &options;
  Engine &engine;
  Control &control; // is told the step, for messages
  Exchange &exchange;
  Saver *saver; // null: none
  TraceFile *traceFile;
  Trace *trace;               // null: none
  std::optional<Peaks> peaks; // measured for --profile
  const Manifest &manifest;
  std::unique_ptr<DataSource> data;
  std::unique_ptr<Evaluation> evaluation; // null: none
  SampleOrder order;
  const LossScale lossScale;
  TrainState state; // after the steps that were issued
  std::unique_ptr<Log> log;
  std::unique_ptr<TensorBoard> tensorBoard;
  Progress progress;
  std::deque<Outstanding> outstanding;
  int64_t lastStep; // sooner than asked for after a signal
  bool stopped = false;
  std::optional<SaveRecord> lastSaved; // that no record of a step tells yet
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRAINER_H
