// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Batch.h.

#include "Batch.h"
#include "shardonnx/runtime/Random.h"

namespace shardonnx::rt {
namespace {

using Kind = Manifest::InputKind;

// A position or mask input that was exported without a batch axis, or with
// one of size 1, is one row.
int64_t rowsOf(const Manifest::Input &input) {
  return input.shape.empty() ? 1 : input.shape[0];
}

void fillRandom(const Manifest::Input &input, const RandomState &random,
                uint8_t *to) {
  storeInteger(input, to, 0, random.firstSample);
  for (int64_t op = 0; op + 1 < input.elements(); ++op)
    storeInteger(input, to, op + 1,
                 static_cast<int64_t>(shardonnx::random::streamKey(
                     random.seed, static_cast<uint64_t>(op))));
}

void fillRow(const Manifest::Input &input, size_t index, DataSource &data,
             int64_t row, int64_t sample, uint8_t *to) {
  int64_t n = rowElements(input);
  to += row * n * dtypeBytes(input.dtype);
  data.read(sample == kNoSample ? 0 : sample, index, to);
  if (sample == kNoSample && isLabel(input.kind))
    for (int64_t i = 0; i < n; ++i)
      storeInteger(input, to, i, input.ignoredLabel);
}

} // namespace

void fillBatch(const Manifest &manifest, DataSource &data,
               const std::vector<int64_t> &samples, const RandomState &random,
               uint8_t *const *inputs) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i)
    if (manifest.inputs[i].kind == Kind::Random)
      fillRandom(manifest.inputs[i], random, inputs[i]);
  // Row by row, so that a reader which keeps its last sample reads it once.
  for (size_t b = 0; b < samples.size(); ++b)
    for (size_t i = 0; i < manifest.inputs.size(); ++i)
      if (manifest.inputs[i].kind != Kind::Random &&
          static_cast<int64_t>(b) < rowsOf(manifest.inputs[i]))
        fillRow(manifest.inputs[i], i, data, static_cast<int64_t>(b),
                samples[b], inputs[i]);
}

double lossDenominator(DataSource &data, const Manifest &manifest,
                       const SampleOrder &order, int64_t consumed) {
  const Manifest::Loss &loss = manifest.loss;
  int64_t microbatches = order.ranks * order.accumulate;
  if (loss.denominator == Manifest::Denominator::Batches)
    return static_cast<double>(microbatches);
  if (loss.denominator == Manifest::Denominator::Sum)
    return 1;
  if (loss.denominator == Manifest::Denominator::Elements)
    return static_cast<double>(microbatches * loss.perMicrobatch);
  int64_t labels = 0;
  for (int64_t a = 0; a < order.accumulate; ++a)
    for (int64_t r = 0; r < order.ranks; ++r)
      for (int64_t b = 0; b < order.batch; ++b)
        labels += data.countLabels(order.at(consumed, a, r, b));
  return static_cast<double>(labels);
}

} // namespace shardonnx::rt
