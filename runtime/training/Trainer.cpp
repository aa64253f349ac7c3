// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Trainer.h. Nothing here differs between ranks but who writes and prints.

#include "Trainer.h"
#include "../comm/Monitor.h"
#include "../support/Error.h"
#include "Batch.h"
#include "NonFinite.h"
#include "Profile.h"
#include "ResumeCommand.h"
#include "SameData.h"
#include "shardonnx/runtime/Random.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>

namespace shardonnx::rt {

// Of data, before the first step: seconds, on all ranks together.
static constexpr int64_t kBytesLookedAt = int64_t(4) << 30;

Trainer::Trainer(const Options &options, Engine &engine, Control &control,
                 Exchange &exchange, const std::optional<Restored> &restored,
                 Saver *saver, Trace *trace, TraceFile *traceFile)
    : options(options), engine(engine), control(control), exchange(exchange),
      saver(saver), traceFile(traceFile), trace(trace),
      manifest(engine.manifest), lossScale(options, manifest),
      state(restored ? restored->state : TrainState()),
      progress(options.steps, state.step,
               manifest.seq > 0 ? "tok/s" : "samples/s"),
      lastStep(options.steps) {
  data =
      openData(options.data, options.dataType, manifest, options.shiftLabels);
  if (!options.evalData.empty())
    evaluation = std::make_unique<Evaluation>(
        engine,
        openData(options.evalData, options.dataType, manifest,
                 options.shiftLabels),
        options.seed);
  order = {manifest.batch,  engine.sampleRanks(), options.accumulate,
           data->samples(), options.shuffle,      options.seed};
  compareData(restored);
  checkData();
  if (!first())
    return;
  log = std::make_unique<Log>(options.log, state.step);
  tensorBoard = std::make_unique<TensorBoard>(options.tensorboard);
  for (const std::string &name : data->unusedArrays())
    printWarning(concat("array '", name, "' of '", options.data.front(),
                        "' is ignored: the program reads no such input"));
  if (std::string labels = data->describeLabels(); !labels.empty())
    progress.note(labels);
  if (manifest.lora)
    progress.note(describeBase());
}

// What a run with adapters trains, and what it only holds.
std::string Trainer::describeBase() const {
  int64_t trained = 0, all = 0, bytes = 0;
  for (size_t u = 0; u < manifest.units.size(); ++u) {
    const Manifest::Unit &unit = manifest.units[u];
    for (const Manifest::Param &param : unit.params) {
      all += param.elements();
      trained += param.trainable ? param.elements() : 0;
    }
    bytes += engine.owned(u, /*trainable=*/false).size() *
             dtypeBytes(unit.paramType);
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "trains %lld parameters of %lld (%.3f %%); of the frozen base "
                "a rank owns %.1f MiB",
                static_cast<long long>(trained), static_cast<long long>(all),
                100 * static_cast<double>(trained) / static_cast<double>(all),
                static_cast<double>(bytes) / (1 << 20));
  return text;
}

// With each other's, and with that of the checkpoint.
void Trainer::compareData(const std::optional<Restored> &restored) {
  DataIdentity identity = identityOf(*data, manifest);
  if (engine.ranks() > 1) {
    requireSameData(exchange, engine.rank(), "--data", identity);
    if (evaluation)
      requireSameData(exchange, engine.rank(), "--eval-data",
                      identityOf(evaluation->source(), manifest));
  }
  if (saver)
    saver->setData(identity);
  if (!first() || !restored || !restored->data)
    return;
  std::string how = differenceOf(*restored->data, identity);
  if (how.empty())
    return;
  bool isCutAnew = restored->data->sequence != identity.sequence &&
                   restored->data->sequence > 0 && identity.sequence > 0;
  printWarning(
      concat("'", restored->folder, "' was trained on ",
             isCutAnew ? "other samples of --data" : "other data than --data",
             " (", how, "): the run goes on with sample ", state.samples,
             " of this one's order"));
}

// What this run will read, as far as so many bytes of it; of the rest the step
// that reads it tells. Samples that no step reaches are nobody's concern, and
// behind an epoch nothing is new: all ranks have looked at one together.
void Trainer::checkData() {
  int64_t mostBytes = kBytesLookedAt / engine.sampleRanks(), bytes = 0;
  int64_t epochs = options.shuffle ? 2 : 1; // the first may have begun
  int64_t end = state.samples + epochs * data->samples();
  int64_t consumed = state.samples;
  for (int64_t step = state.step; step < options.steps && consumed < end;
       ++step, consumed += order.perStep())
    for (int64_t a = 0; a < order.accumulate; ++a)
      for (int64_t sample : samplesOf(consumed, a)) {
        bytes += data->checkedBytes(sample);
        if (bytes > mostBytes)
          return;
        checkSample(*data, manifest, sample);
      }
}

Scalars Trainer::scalarsOf(int64_t step, double denominator) const {
  Scalars v{};
  auto t = static_cast<double>(state.optimizerSteps + 1);
  v[SHX_LOSS_SCALE] =
      static_cast<float>(denominator > 0 ? state.lossScale / denominator : 0);
  v[SHX_LR] = static_cast<float>(options.schedule().at(step));
  v[SHX_BETA1] = static_cast<float>(options.beta1);
  v[SHX_BETA2] = static_cast<float>(options.beta2);
  v[SHX_ONE_MINUS_BETA1] = static_cast<float>(1 - options.beta1);
  v[SHX_ONE_MINUS_BETA2] = static_cast<float>(1 - options.beta2);
  v[SHX_EPS] = static_cast<float>(options.eps);
  v[SHX_WEIGHT_DECAY] = static_cast<float>(options.weightDecay);
  v[SHX_BIAS_CORRECTION1] = static_cast<float>(1 - std::pow(options.beta1, t));
  v[SHX_BIAS_CORRECTION2] = static_cast<float>(1 - std::pow(options.beta2, t));
  // Where no label counts the norm is NaN, as PyTorch's is, not zero.
  v[SHX_CLIP] = denominator > 0 ? static_cast<float>(1 / state.lossScale)
                                : std::numeric_limits<float>::quiet_NaN();
  v[SHX_CLIP_VALUE] = options.clipGradValue > 0
                          ? static_cast<float>(options.clipGradValue)
                          : std::numeric_limits<float>::infinity();
  double momentum = options.momentumOf(engine.manifest.optimizer);
  v[SHX_MOMENTUM] = static_cast<float>(momentum);
  v[SHX_ONE_MINUS_MOMENTUM] = static_cast<float>(1 - momentum);
  v[SHX_MUON_LR] = static_cast<float>(options.muonSchedule().at(step));
  v[SHX_FIRST_STEP] = state.optimizerSteps == 0 ? 1 : 0;
  // Of the steps, those too that are skipped.
  uint64_t key = random::streamKey(options.seed, ~static_cast<uint64_t>(step));
  auto bits = static_cast<uint32_t>(key >> 32);
  std::memcpy(&v[SHX_ROUNDING_KEY], &bits, sizeof(bits));
  return v;
}

// What came before the traced steps is done before they begin.
void Trainer::trainStep(int64_t step) {
  if (trace && step == trace->first()) {
    engine.beginTrace();
    trace->setActive(true);
  }
  {
    bool traced = trace && trace->active();
    TraceSpan span(trace, TraceRow::Steps,
                   traced ? trace->intern(concat("step ", step)) : "");
    issue(step);
  }
  if (trace && step == trace->last())
    endTrace();
}

// The default is of the first steps of this run, wherever it begins, or of what
// it has.
void Trainer::placeTrace() {
  if (!trace)
    return;
  if (!options.traceStepsGiven)
    trace->shift(std::min(state.step, options.steps - trace->first()));
  trace->limit(state.step + 1, options.steps);
}

void Trainer::endTrace() {
  trace->setActive(false);
  engine.endTrace();
}

void Trainer::issue(int64_t step) {
  control.setStep(step);
  double denominator = lossDenominator(*data, manifest, order, state.samples);
  engine.beginStep(scalarsOf(step, denominator));
  issueMicrobatches(state.samples);
  {
    TraceSpan span(trace, TraceRow::Steps, "update");
    engine.update();
  }
  engine.endStep();
  outstanding.push_back({step, state.samples, denominator, state.lossScale});
  state.step = step;
  ++state.optimizerSteps;
  state.samples += order.perStep();
}

void Trainer::issueMicrobatches(int64_t consumed) {
  for (int64_t a = 0; a < order.accumulate; ++a) {
    {
      TraceSpan span(trace, TraceRow::Steps, "batch");
      int64_t first = consumed + order.offset(a, engine.sampleRank());
      fillBatch(manifest, *data, samplesOf(consumed, a), {options.seed, first},
                engine.inputs());
    }
    TraceSpan span(trace, TraceRow::Steps, "microbatch");
    engine.microbatch(a == 0, a + 1 == order.accumulate);
  }
}

int Trainer::stepsAhead() const {
  return lossScale.isDynamic() || options.skipNonFinite ? 0
                                                        : engine.stepsAhead();
}

void Trainer::checkResult(const Outstanding &step, const StepResult &result) {
  if (step.empty() && !options.skipNonFinite)
    stopAtNoLabels(engine, exchange, step.step);
  bool skipped = !std::isfinite(result.gradNorm);
  bool stop = (skipped || !std::isfinite(result.loss)) &&
              !options.skipNonFinite &&
              !(skipped && lossScale.mayBeTooLarge(state));
  if (stop)
    stopAt(step, result);
  if (skipped)
    --state.optimizerSteps;
  if (!step.empty())
    lossScale.update(state, skipped);
}

// Where a later step has taken the gradients' place, the step is run again.
void Trainer::stopAt(const Outstanding &step, const StepResult &result) {
  if (!outstanding.empty()) {
    while (!outstanding.empty()) {
      engine.result(/*wait=*/true);
      outstanding.pop_front();
    }
    engine.beginStep(scalarsOf(step.step, step.denominator));
    issueMicrobatches(step.samples);
  }
  std::string inputs;
  for (int64_t a = 0; a < order.accumulate && inputs.empty(); ++a)
    inputs = findInInputs(manifest, *data, samplesOf(step.samples, a));
  stopAtNonFinite(engine, exchange, step.step, result, inputs);
}

// This rank's samples of microbatch `a` of the step behind so many.
std::vector<int64_t> Trainer::samplesOf(int64_t consumed, int64_t a) const {
  std::vector<int64_t> samples;
  for (int64_t b = 0; b < order.batch; ++b)
    samples.push_back(order.at(consumed, a, engine.sampleRank(), b));
  return samples;
}

// Every rank has the same loss and comes to the same conclusion.
void Trainer::judge(int64_t step, double evalLoss) {
  if (evalLoss < state.bestLoss) {
    state.bestLoss = evalLoss;
    state.bestStep = step;
    state.worseSince = 0;
    if (saver && options.keepBest)
      saver->setBest(step);
    return;
  }
  ++state.worseSince;
  if (options.patience == 0 || state.worseSince < options.patience)
    return;
  lastStep = std::min(lastStep, step);
  if (first() && step < options.steps)
    progress.note(concat("no evaluation since step ", state.bestStep,
                         " had a lower loss (--patience=", options.patience,
                         "): the run ends after step ", step));
}

bool Trainer::evaluatesAfter(int64_t step) const {
  if (!evaluation)
    return false;
  return step == options.steps ||
         (options.evalEvery > 0 && step % options.evalEvery == 0);
}

// Between two steps, and no part of them: a trace of these has one span of it.
double Trainer::evaluate() {
  if (!trace || !trace->active())
    return evaluation->loss();
  engine.pauseTrace();
  trace->setActive(false);
  int64_t begin = monotonicNanoseconds();
  double loss = evaluation->loss();
  trace->measure({kEvaluationSpan, begin, monotonicNanoseconds()});
  engine.beginTrace();
  trace->setActive(true);
  return loss;
}

int64_t Trainer::memoryBytes() const {
  return data->memoryBytes() +
         (evaluation ? evaluation->source().memoryBytes() : 0);
}

void Trainer::report(const Outstanding &step, const StepResult &result) {
  MemoryUse memory = engine.memory(memoryBytes(), step.step == options.steps);
  std::optional<double> evalLoss;
  if (evaluatesAfter(step.step))
    judge(step.step, *(evalLoss = evaluate()));
  if (!first())
    return;
  StepRecord record;
  record.step = step.step;
  record.loss = step.empty() ? std::numeric_limits<double>::quiet_NaN()
                             : result.loss / step.denominator;
  record.gradNorm = result.gradNorm;
  record.lr = options.schedule().at(step.step);
  int64_t microbatches = order.ranks * order.accumulate;
  record.tokens = manifest.tokensPerMicrobatch() * microbatches;
  record.stepMs = result.seconds * 1e3;
  record.tokensPerSecond = static_cast<double>(record.tokens) / result.seconds;
  double flops = manifest.flopsPerMicrobatch *
                 static_cast<double>(microbatches * engine.together()) /
                 result.seconds;
  record.tflops = flops * 1e-12;
  if (std::optional<double> peak = engine.peakFlops())
    record.mfu = flops / engine.ranks() / *peak;
  record.evalLoss = evalLoss;
  if (evalLoss && manifest.loss.kind == LossKind::CausalLm)
    record.perplexity = std::exp(*evalLoss);
  if (lossScale.isDynamic() || step.lossScale != 1)
    record.lossScale = step.lossScale;
  record.skipped = !std::isfinite(result.gradNorm);
  if (result.offloadBytes > 0 && result.offloadSeconds > 0)
    record.offloadBytesPerSecond =
        static_cast<double>(result.offloadBytes) / result.offloadSeconds;
  record.peakBytes = memory.planned;
  record.pssBytes = memory.measured;
  record.contextBytes = memory.context;
  if (lastSaved) {
    record.saveMs = lastSaved->ms;
    record.saveStallMs = lastSaved->stallMs;
    lastSaved.reset();
  }
  log->write(record);
  tensorBoard->write(record);
  progress.step(record);
}

void Trainer::collect(int ahead) {
  while (!outstanding.empty()) {
    bool wait = outstanding.size() > static_cast<size_t>(ahead);
    std::optional<StepResult> result = engine.result(wait);
    if (!result)
      return;
    Outstanding step = outstanding.front();
    outstanding.pop_front();
    if (result->stop && !stopped) {
      // Every rank comes to know of it before the next step but these.
      stopped = true;
      lastStep = std::min(lastStep, step.step + stepsAhead());
    }
    report(step, *result);
    checkResult(step, *result);
  }
}

void Trainer::reportSave(const std::optional<SaveRecord> &saved) {
  if (!saved || !first())
    return;
  lastSaved = saved;
  char text[160];
  std::snprintf(text, sizeof(text),
                ": %.1f MB in %.2f s, training stood still for %.2f s, state ",
                static_cast<double>(saved->bytes) / 1e6, saved->ms / 1e3,
                saved->stallMs / 1e3);
  progress.note(
      concat("saved '", saved->path, "'", text, hexText(saved->hash)));
}

// After `step`, when it is time to.
void Trainer::save(int64_t step) {
  if (saver && saver->savesAfter(step, step >= lastStep))
    reportSave(saver->begin(state));
}

// Another rank may have been asked: batch systems do so by SIGTERM.
void Trainer::reportStop() const {
  int signal = control.stoppedBy() != 0 ? control.stoppedBy() : SIGTERM;
  progress.note(concat("stopped by ", signalName(signal), " after step ",
                       state.step,
                       saver ? "" : ", nothing is saved: no --save"));
  if (saver && state.step < options.steps)
    progress.note("go on with: " +
                  resumeCommand(options.command, options.save));
}

// Of the first rank alone: the others do the same work.
void Trainer::printProfile() const {
  int64_t owned = 0;
  for (size_t unit = 0; unit < manifest.units.size(); ++unit)
    owned += engine.owned(unit, /*trainable=*/true).size();
  std::fputs(
      profileText(*trace, manifest, order.accumulate, owned, peaks).c_str(),
      stderr);
}

void Trainer::run() {
  engine.start();
  if (options.profile) // on all ranks at once, as they compute
    peaks = engine.measurePeaks();
  lossScale.begin(state);
  control.setStopsAfterStep();
  placeTrace();
  for (int64_t step = state.step + 1; step <= lastStep; ++step) {
    trainStep(step);
    if (saver)
      reportSave(saver->poll());
    // Weights of a later step are not what an evaluation is of.
    bool drain = step >= lastStep || evaluatesAfter(step) ||
                 (saver && saver->savesAfter(step, /*last=*/false));
    collect(drain ? 0 : stepsAhead());
    if (step >= lastStep)
      collect(0);
    save(step);
  }
  if (saver)
    reportSave(saver->finish());
  if (stopped && first())
    reportStop();
  if (trace && trace->active()) { // it ended sooner
    endTrace();
    trace->limit(0, state.step);
  }
  bool traced = trace && trace->steps() > 0 && trace->first() <= state.step;
  if (trace && !traced && first())
    printWarning(concat(traceFile ? "--trace" : "--profile",
                        " has nothing to tell: the steps that it looks at "
                        "were not run; give others with --trace-steps"));
  if (traced && traceFile)
    traceFile->writePart();
  if (traced && options.profile && first())
    printProfile();
  engine.finish(); // all ranks have written theirs
  if (traced && traceFile)
    traceFile->join();
  if (!first())
    return;
  log->close();
  tensorBoard->close();
  progress.close();
}

} // namespace shardonnx::rt
