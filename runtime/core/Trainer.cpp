// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Trainer.h. Nothing here differs between ranks but who writes and prints.

#include "Trainer.h"
#include "../comm/ReduceKernels.h"
#include "Error.h"
#include "ProcessMemory.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <cmath>
#include <limits>

namespace shardonnx::rt {
namespace {

// Reading the proportional set size walks all page tables: at most this share
// of the time.
constexpr double kMeasurementShare = 0.01;

} // namespace

Trainer::Trainer(const Program &program, const Options &options, State &state,
                 Control &control, int threads)
    : program(program), options(options), state(state), control(control),
      manifest(state.manifest), communicator(state, control), batch(manifest),
      progress(options.steps) {
  data = openData(options.data, options.dataType, manifest);
  if (!options.evalData.empty())
    evalData = openData(options.evalData, options.dataType, manifest);
  order = {manifest.batch,  control.ranks(), options.accumulate,
           data->samples(), options.shuffle, options.seed};
  if (first()) {
    log = std::make_unique<Log>(options.log);
    for (const std::string &name : data->unread())
      printWarning(concat("array '", name, "' of '", options.data,
                          "' is ignored: the graph has no such input"));
  }
  context.privateBase = state.privateBase();
  context.params = state.paramPointers.data();
  context.grads = state.gradPointers.data();
  context.inputs = batch.inputs();
  context.scalars = context.values;
  context.state = &state;
  context.communicator = &communicator;
  context.clipGradNorm = options.clipGradNorm;
  int64_t peak = totalBytes(planMemory(manifest, control.ranks(), threads,
                                       options.accumulate)) +
                 data->heldBytes() + (evalData ? evalData->heldBytes() : 0);
  control.block(control.rank()).peakBytes.store(peak);
}

void Trainer::setScalars(int64_t step, double denominator) {
  float *v = context.values;
  auto t = static_cast<double>(step);
  v[SHX_LOSS_SCALE] = static_cast<float>(denominator > 0 ? 1 / denominator : 0);
  v[SHX_LR] = static_cast<float>(options.schedule().at(step));
  v[SHX_BETA1] = static_cast<float>(options.beta1);
  v[SHX_BETA2] = static_cast<float>(options.beta2);
  v[SHX_ONE_MINUS_BETA1] = static_cast<float>(1 - options.beta1);
  v[SHX_ONE_MINUS_BETA2] = static_cast<float>(1 - options.beta2);
  v[SHX_EPS] = static_cast<float>(options.eps);
  v[SHX_WEIGHT_DECAY] = static_cast<float>(options.weightDecay);
  v[SHX_BIAS_CORRECTION1] = static_cast<float>(1 - std::pow(options.beta1, t));
  v[SHX_BIAS_CORRECTION2] = static_cast<float>(1 - std::pow(options.beta2, t));
  v[SHX_CLIP] = 1;
  v[SHX_MOMENTUM] = static_cast<float>(options.momentum);
  v[SHX_FIRST_STEP] = step == 1 ? 1 : 0;
}

double Trainer::microbatches(int64_t step) {
  double denominator = lossDenominator(*data, manifest, order, step);
  setScalars(step, denominator);
  context.lossSum = 0;
  std::vector<int64_t> samples(static_cast<size_t>(order.batch));
  for (int64_t a = 0; a < order.accumulate; ++a) {
    for (int64_t b = 0; b < order.batch; ++b)
      samples[static_cast<size_t>(b)] = order.at(step, a, control.rank(), b);
    batch.fill(*data, samples);
    if (state.debug) // nothing of a microbatch may be read by the next
      poison(state.privateBase(), manifest.privateSpace.bytes);
    (a == 0 ? program.firstMicrobatch : program.nextMicrobatch)(&context);
  }
  double sum = communicator.sumLosses({context.lossSum, 0}).loss;
  return denominator > 0 ? sum / denominator
                         : std::numeric_limits<double>::quiet_NaN();
}

// Every sample once. The last round's missing samples have no labels; where
// the loss cannot leave samples out, a last round that is not full is.
double Trainer::evaluate() {
  int64_t perRound = order.batch * order.ranks;
  bool labels = manifest.loss.denominator == Manifest::Denominator::Labels;
  int64_t count = evalData->samples();
  int64_t rounds =
      labels ? (count + perRound - 1) / perRound : count / perRound;
  if (rounds == 0)
    fail("--eval-data has ", count, " samples, one round of all ranks takes ",
         perRound, ": give more data");
  context.lossSum = 0;
  double denominator = 0;
  std::vector<int64_t> samples(static_cast<size_t>(order.batch));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t b = 0; b < order.batch; ++b) {
      int64_t i = round * perRound + control.rank() * order.batch + b;
      samples[static_cast<size_t>(b)] = i < count ? i : Batch::kNoSample;
      if (labels && i < count)
        denominator += static_cast<double>(evalData->countLabels(i));
    }
    if (!labels)
      denominator +=
          manifest.loss.denominator == Manifest::Denominator::Elements
              ? static_cast<double>(manifest.loss.perMicrobatch)
              : 1;
    batch.fill(*evalData, samples);
    if (state.debug)
      poison(state.privateBase(), manifest.privateSpace.bytes);
    program.evalMicrobatch(&context);
  }
  Communicator::LossSum sum =
      communicator.sumLosses({context.lossSum, denominator});
  return sum.loss / sum.count;
}

bool Trainer::evaluatesAfter(int64_t step) const {
  if (!evalData)
    return false;
  return step == options.steps ||
         (options.evalEvery > 0 && step % options.evalEvery == 0);
}

// The last step's is what the closing line says, so it has all ranks'.
void Trainer::measureMemory(bool last) {
  double begin = monotonicSeconds();
  if (!last && begin < nextMeasurement)
    return;
  control.block(control.rank()).pssBytes.store(proportionalSetBytes());
  if (last)
    control.barrier(Activity::End);
  double end = monotonicSeconds();
  nextMeasurement = end + (end - begin) / kMeasurementShare;
}

void Trainer::report(int64_t step, double loss, double lr, double seconds,
                     std::optional<double> evalLoss) {
  StepRecord record;
  record.step = step;
  record.loss = loss;
  record.gradNorm = context.gradNorm;
  record.lr = lr;
  record.tokens =
      manifest.tokensPerMicrobatch() * order.ranks * order.accumulate;
  record.stepMs = seconds * 1e3;
  record.tokensPerSecond = static_cast<double>(record.tokens) / seconds;
  record.tflops = manifest.flopsPerMicrobatch *
                  static_cast<double>(order.ranks * order.accumulate) /
                  seconds * 1e-12;
  record.evalLoss = evalLoss;
  for (int r = 0; r < control.ranks(); ++r) {
    RankBlock &block = control.block(r);
    record.peakBytes = std::max(record.peakBytes, block.peakBytes.load());
    record.pssBytes = std::max(record.pssBytes, block.pssBytes.load());
  }
  log->write(record);
  progress.step(record);
}

void Trainer::run() {
  control.barrier(Activity::Start); // all masters are in place
  for (int64_t step = 1; step <= options.steps; ++step) {
    double begin = monotonicSeconds();
    double loss = microbatches(step);
    program.update(&context);
    double seconds = monotonicSeconds() - begin;
    measureMemory(step == options.steps);
    std::optional<double> evalLoss;
    if (evaluatesAfter(step))
      evalLoss = evaluate();
    if (first())
      report(step, loss, options.schedule().at(step), seconds, evalLoss);
  }
  control.barrier(Activity::End);
  if (!first())
    return;
  log->close();
  progress.close();
}

} // namespace shardonnx::rt
