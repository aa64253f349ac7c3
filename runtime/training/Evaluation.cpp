// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Evaluation.h. Ranks take microbatches in turn, and all evaluate equally
// many, since they gather parameters together: what a rank has no microbatch
// for does not count.

#include "Evaluation.h"
#include "../support/Error.h"
#include "Batch.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

using Denominator = Manifest::Denominator;

// Where labels are counted, samples that are not there have none.
bool countsLabels(const Manifest &manifest) {
  return manifest.loss.denominator == Denominator::Labels ||
         manifest.loss.denominator == Denominator::Sum;
}

} // namespace

Evaluation::Evaluation(Engine &engine, std::unique_ptr<DataSource> source,
                       uint64_t seed)
    : engine(engine), manifest(engine.manifest), data(std::move(source)),
      seed(seed) {
  check();
}

void Evaluation::check() {
  int64_t samples = data->samples(), batch = manifest.batch;
  if (manifest.loss.denominator == Denominator::Batches) {
    if (samples < batch)
      fail("--eval-data has ", samples, " samples, a microbatch takes ", batch,
           ": give more data");
    if (samples % batch != 0 && engine.rank() == 0)
      printWarning(concat("of --eval-data the last ", samples % batch,
                          " samples fill no microbatch of ", batch,
                          " and are left out: the graph computes its loss "
                          "itself, of a whole one"));
  }
  for (int64_t sample = engine.sampleRank(); sample < samples;
       sample += engine.sampleRanks())
    checkSample(*data, manifest, sample);
}

double Evaluation::loss() {
  return countsLabels(manifest) ? lossOfLabels() : lossOfMicrobatches();
}

// Every evaluation draws the same numbers, which are not training's.
void Evaluation::evaluate(int64_t microbatch, const SampleAt &sampleAt) {
  std::vector<int64_t> samples;
  for (int64_t row = 0; row < manifest.batch; ++row)
    samples.push_back(sampleAt(microbatch, row));
  fillBatch(manifest, *data, samples, {~seed, samples[0]}, engine.inputs());
  engine.evalMicrobatch();
}

double Evaluation::lossOfLabels() {
  int64_t count = data->samples(), batch = manifest.batch;
  int64_t ranks = engine.sampleRanks(), perRound = batch * ranks;
  double labels = 0;
  for (int64_t first = engine.sampleRank() * batch;
       first < count + engine.sampleRank() * batch; first += perRound) {
    for (int64_t i = first; i < std::min(first + batch, count); ++i)
      labels += static_cast<double>(data->countLabels(i));
    evaluate(first / batch, [&](int64_t microbatch, int64_t row) {
      int64_t i = microbatch * batch + row;
      return i < count ? i : kNoSample;
    });
  }
  if (manifest.loss.denominator == Denominator::Sum)
    return engine.evaluation(/*count=*/1).loss; // be there labels or not
  Engine::Evaluation sum = engine.evaluation(labels);
  return sum.loss / sum.count;
}

// Of samples that fill no microbatch each fills one alone, which is as many
// times its loss where that is a sum over elements.
double Evaluation::lossOfMicrobatches() {
  bool ofElements = manifest.loss.denominator == Denominator::Elements;
  double each =
      ofElements ? static_cast<double>(manifest.loss.perMicrobatch) : 1;
  int64_t batch = manifest.batch, whole = data->samples() / batch;
  Engine::Evaluation sum =
      sumOver(whole, each, [&](int64_t microbatch, int64_t row) {
        return microbatch * batch + row;
      });
  if (ofElements) {
    Engine::Evaluation rest = sumOver(data->samples() % batch, each,
                                      [&](int64_t microbatch, int64_t) {
                                        return whole * batch + microbatch;
                                      });
    sum.loss += rest.loss / static_cast<double>(batch);
    sum.count += rest.count / static_cast<double>(batch);
  }
  return sum.loss / sum.count;
}

Engine::Evaluation Evaluation::sumOver(int64_t microbatches, double each,
                                       const SampleAt &sampleAt) {
  int64_t ranks = engine.sampleRanks(), rank = engine.sampleRank();
  int64_t rounds = microbatches / ranks;
  Engine::Evaluation sum;
  auto add = [&](double count) {
    Engine::Evaluation more = engine.evaluation(count);
    sum.loss += more.loss;
    sum.count += more.count;
  };
  for (int64_t round = 0; round < rounds; ++round)
    evaluate(round * ranks + rank, sampleAt);
  if (rounds > 0)
    add(static_cast<double>(rounds) * each);
  if (microbatches % ranks == 0)
    return sum;
  bool isMine = rounds * ranks + rank < microbatches;
  evaluate(isMine ? rounds * ranks + rank : 0, sampleAt);
  add(isMine ? each : 0);
  return sum;
}

} // namespace shardonnx::rt
