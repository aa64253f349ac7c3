// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Numbers.h. The device's block, in doubles:
//   scalars without decay, scalars, steps of weights, a copy of the scalars |
//   norm, losses[ranks][2], outside[3] |
//   loss[2], squares, all squares[ranks], partial sums of squares
// of which the middle part is the report that goes to the host.

#include "Numbers.h"
#include "../kernels/OutsideCells.h"
#include <cstring>

namespace shardonnx::rt::cuda {
namespace {

constexpr int64_t kScalarDoubles = SHX_NUM_SCALARS / 2;

constexpr int64_t kOutside = 3; // integers of eight bytes
int64_t outsideInReport(int ranks) { return 1 + 2 * ranks; }
int64_t reportDoubles(int ranks) { return outsideInReport(ranks) + kOutside; }
// From the begin of the report on.
int64_t lossAt(int ranks) { return reportDoubles(ranks); }
int64_t squaresAt(int ranks) { return lossAt(ranks) + 2; }
int64_t partialsAt(int ranks) { return squaresAt(ranks) + 1 + ranks; }

int64_t doublesOf(int64_t steps) { return steps * (SHX_STEP_STRIDE / 2); }

// Of the pinned memory: each slot's report, then two forms of its scalars.
int64_t slotDoubles(int ranks) {
  return reportDoubles(ranks) + 2 * kScalarDoubles;
}
// One slot more than steps may be outstanding, and the begin of a step's time
// is the end of the one before; the last is for evaluations.
constexpr size_t kSlots = Numbers::kAhead + 2;

void copyToDevice(void *to, const void *from, size_t bytes, CUstream stream) {
  check(driver().cuMemcpyHtoDAsync(deviceAddress(to), from, bytes, stream),
        "copying numbers to the GPU");
}

} // namespace

int64_t Numbers::bytes(int ranks, int64_t partials, int64_t steps) {
  return (4 * kScalarDoubles + doublesOf(steps) + partialsAt(ranks) +
          partials) *
         static_cast<int64_t>(sizeof(double));
}

Numbers::Numbers(const Topology &topology, int64_t partials, int64_t steps)
    : topology(topology), ranks(topology.ranks), stepDoubles(doublesOf(steps)),
      device(bytes(ranks, partials, steps), "numbers of a step"),
      pinned(static_cast<int64_t>(kSlots + 1) * slotDoubles(ranks) *
                 static_cast<int64_t>(sizeof(double)),
             "numbers of a step"),
      slots(kSlots) {}

Cells Numbers::cells(bool keepsScalars) const {
  Cells cells;
  cells.scalarsWithoutDecay = devicePointer<float>(device.address());
  cells.scalars = cells.scalarsWithoutDecay + SHX_NUM_SCALARS;
  cells.steps = cells.scalars + SHX_NUM_SCALARS;
  static_assert(2 * SHX_NUM_SCALARS % SHX_STEP_STRIDE == 0);
  double *base = devicePointer<double>(device.address()) + 2 * kScalarDoubles +
                 stepDoubles;
  cells.optimizerScalarsWithoutDecay = keepsScalars
                                           ? reinterpret_cast<float *>(base)
                                           : cells.scalarsWithoutDecay;
  cells.optimizerScalars = cells.optimizerScalarsWithoutDecay + SHX_NUM_SCALARS;
  base += 2 * kScalarDoubles;
  cells.norm = base;
  cells.losses = cells.norm + 1;
  cells.outside =
      reinterpret_cast<int64_t *>(cells.norm + outsideInReport(ranks));
  cells.loss = base + lossAt(ranks);
  cells.squares = base + squaresAt(ranks);
  cells.allSquares = cells.squares + 1;
  cells.partials = base + partialsAt(ranks);
  return cells;
}

double *Numbers::report(size_t index) const {
  return reinterpret_cast<double *>(pinned.data()) +
         static_cast<int64_t>(index) * slotDoubles(ranks);
}

float *Numbers::scalars(size_t index) const {
  return reinterpret_cast<float *>(report(index) + reportDoubles(ranks));
}

void Numbers::clearLoss(CUstream compute) {
  // What lies before the loss is cleared with it.
  check(driver().cuMemsetD8Async(deviceAddress(cells().outside), 0,
                                 (kOutside + 2) * sizeof(double), compute),
        "clearing the loss");
}

void Numbers::beginStep(CUstream compute, const Scalars &values) {
  Slot &now = slot(begun);
  float *staged = scalars(static_cast<size_t>(begun) % kSlots);
  std::memcpy(staged, values.data(), sizeof(values));
  std::memcpy(staged + SHX_NUM_SCALARS, values.data(), sizeof(values));
  staged[SHX_WEIGHT_DECAY] = 0;
  now.begin.record(compute);
  copyToDevice(cells().scalarsWithoutDecay, staged, 2 * sizeof(values),
               compute);
  clearLoss(compute);
  now.continuous = continuous;
  continuous = true;
  ++begun;
}

void Numbers::beginUpdate(CUstream compute) {
  Slot &now = slot(begun - 1);
  now.update.record(compute);
  now.timesUpdate = true;
}

void Numbers::endStep(CUstream compute) {
  size_t index = static_cast<size_t>(ended) % kSlots;
  size_t size = static_cast<size_t>(reportDoubles(ranks)) * sizeof(double);
  check(driver().cuMemcpyDtoHAsync(report(index), deviceAddress(cells().norm),
                                   size, compute),
        "copying a step's numbers to the host");
  slots[index].end.record(compute);
  ++ended;
}

// As the CPU's kernels do where they meet one.
void Numbers::requireInside(const double *report) const {
  int64_t outside[kOutside];
  std::memcpy(outside, report + outsideInReport(ranks), sizeof(outside));
  if (!outside[0])
    return;
  auto whose = static_cast<uintptr_t>(outside[0]);
  fail("index ", outside[1], " of ",
       whose == kSomeEmbedding ? "an embedding"
                               : reinterpret_cast<const char *>(whose),
       " is outside of its axis of ", outside[2],
       " elements; mend the data that it comes from");
}

double Numbers::sumOfLosses(const double *report, int which, int stride) const {
  double sum = 0;
  for (int r = 0; r < ranks; r += stride)
    sum += report[1 + 2 * r + which];
  return sum;
}

std::optional<StepResult> Numbers::take(bool wait, const std::string &waiting) {
  if (!outstanding())
    return std::nullopt;
  Slot &done = slot(taken);
  if (wait)
    done.end.synchronize(waiting.c_str());
  else if (!done.end.done())
    return std::nullopt;
  const double *numbers = report(static_cast<size_t>(taken) % kSlots);
  requireInside(numbers);
  const Event &begin = done.continuous ? slot(taken - 1).end : done.begin;
  StepResult result;
  result.gradNorm = numbers[0];
  result.loss = sumOfLosses(numbers, 0, topology.tensor);
  result.stop = sumOfLosses(numbers, 1, 1) > 0;
  result.seconds = Event::milliseconds(begin, done.end) * 1e-3;
  if (done.timesUpdate)
    result.offloadSeconds = Event::milliseconds(done.update, done.end) * 1e-3;
  ++taken;
  return result;
}

void Numbers::setCount(CUstream compute, double count) {
  double *staged = report(kSlots);
  *staged = count;
  copyToDevice(cells().loss + 1, staged, sizeof(double), compute);
}

Engine::Evaluation Numbers::readLosses(CUstream compute,
                                       const std::string &waiting) {
  double *numbers = report(kSlots);
  size_t size = static_cast<size_t>(reportDoubles(ranks)) * sizeof(double);
  check(driver().cuMemcpyDtoHAsync(numbers, deviceAddress(cells().norm), size,
                                   compute),
        "copying losses to the host");
  check(driver().cuStreamSynchronize(compute), waiting);
  requireInside(numbers);
  return {sumOfLosses(numbers, 0, topology.tensor),
          sumOfLosses(numbers, 1, topology.together())};
}

} // namespace shardonnx::rt::cuda
