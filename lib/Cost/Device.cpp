// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Cost/Device.h"

#include <algorithm>
#include <cmath>

namespace shardonnx {

double Device::workSeconds(double flops, double bytes, bool half) const {
  return std::max(flops / (half ? halfFlops : f32Flops),
                  bytes / memoryBytesPerSecond);
}

// The last wave of tiles leaves multiprocessors idle, tiles at the edges hold
// less than they could, and a shallow product spends its time on starting. A
// library also has smaller tiles, which reuse less of what they read: of both
// the better is taken.
double Device::productShare(double rows, double depth, double columns,
                            double count) const {
  constexpr double kSmallTile = 0.85; // of the rate of the large one
  if (multiprocessors <= 1)
    return 1;
  auto reached = [&](double high, double wide, double rate) {
    double tiles = count * std::ceil(rows / high) * std::ceil(columns / wide);
    double waves = std::ceil(tiles / multiprocessors);
    double filled =
        count * rows * columns / (waves * multiprocessors * high * wide);
    return rate * filled * depth / (depth + tileDepth);
  };
  return std::max(reached(tileRows, tileColumns, 1),
                  reached(tileRows / 2, tileColumns / 2, kSmallTile));
}

double Device::productSeconds(double rows, double depth, double columns,
                              double count, double bytes, bool half) const {
  double flops = 2 * count * rows * depth * columns;
  if (flops <= 0)
    return workSeconds(0, bytes, half);
  return workSeconds(flops / productShare(rows, depth, columns, count), bytes,
                     half);
}

double Device::f8ProductSeconds(double rows, double depth, double columns,
                                double bytes) const {
  Device f8 = *this;
  // What is not known of is as fast as 16 bits are.
  f8.halfFlops = f8Flops > 0 ? f8Flops : halfFlops;
  return f8.productSeconds(rows, depth, columns, 1, bytes, /*half=*/true);
}

// Between two lengths, on a scale of their logarithms; beyond the ends, as at
// them.
static double rateAt(const std::vector<AttentionRates::Point> &points,
                     double sequence) {
  for (size_t i = 0; i < points.size(); ++i) {
    if (sequence > points[i].sequence)
      continue;
    if (i == 0)
      break;
    const AttentionRates::Point &low = points[i - 1], &high = points[i];
    double share = std::log(sequence / low.sequence) /
                   std::log(high.sequence / low.sequence);
    return low.flops + share * (high.flops - low.flops);
  }
  return sequence <= points.front().sequence ? points.front().flops
                                             : points.back().flops;
}

// Of the library's figures those for the most similar heads; of these, those
// with the same mask.
double Device::attentionRate(const AttentionShape &shape,
                             const std::string &library) const {
  const AttentionRates *best = nullptr;
  auto distance = [&](const AttentionRates &rates) {
    return std::pair(std::abs(std::log(rates.headDim / shape.headDim)),
                     rates.causal != shape.causal);
  };
  for (const AttentionRates &rates : attention)
    if (shape.headDim > 0 && rates.library == library &&
        rates.backward == shape.backward &&
        (!best || distance(rates) < distance(*best)))
      best = &rates;
  if (best)
    return rateAt(best->points, shape.sequence);
  return shape.backward ? attentionBackward : attentionForward;
}

double Device::attentionSeconds(double flops, double bytes,
                                const AttentionShape &shape, bool half,
                                const std::string &library) const {
  double rate = attentionRate(shape, library);
  // Rates are those of 16 bits; in f32 it is as slow as products are.
  if (!half)
    rate *= std::min(1.0, f32Flops / halfFlops);
  return std::max(flops / rate, bytes / memoryBytesPerSecond);
}

// Of the group, on one machine.
int64_t Device::ranksHere(const RankGroup &group) const {
  if (perMachine == 0)
    return group.ranks;
  return std::min(group.ranks, std::max<int64_t>(1, perMachine / group.stride));
}

bool Device::isOneMachine(const RankGroup &group) const {
  return ranksHere(group) == group.ranks;
}

// A machine's network is shared by its ranks, all of which are in such a group:
// those of one have their own cards.
Link Device::linkOf(const RankGroup &group) const {
  if (isOneMachine(group))
    return within;
  double share = double(ranksHere(group)) / double(perMachine);
  return {std::min(within.bytesPerSecond, across.bytesPerSecond * share)};
}

double Device::latencyOf(const Protocol &protocol,
                         const RankGroup &group) const {
  int64_t here = ranksHere(group);
  int64_t machines = (group.ranks + here - 1) / here;
  int64_t between = machines == 1 ? 0 : std::min(machines, group.ranks - 1);
  return protocol.baseSeconds +
         double(group.ranks - 1 - between) * protocol.withinStep +
         double(between) * protocol.acrossStep;
}

double Device::latencySeconds(const RankGroup &group) const {
  return group.ranks <= 1 || protocols.empty()
             ? 0
             : latencyOf(protocols.front(), group);
}

double Device::sendSeconds(double bytes, const RankGroup &group) const {
  double wire = bytes / linkOf(group).bytesPerSecond;
  if (protocols.empty())
    return wire;
  double least = INFINITY;
  for (const Protocol &protocol : protocols)
    least = std::min(least, latencyOf(protocol, group) + wire / protocol.share);
  return least;
}

double Device::hostCopySeconds(double bytes) const {
  return kHostCopySeconds + bytes / hostBytesPerSecond;
}

double Device::gatherSeconds(double bytes, const RankGroup &group) const {
  if (group.ranks <= 1)
    return 0;
  auto ranks = double(group.ranks);
  return sendSeconds(bytes / ranks * (sharedMemory ? 1 : ranks - 1), group);
}

double Device::reduceScatterSeconds(double bytes,
                                    const RankGroup &group) const {
  if (group.ranks <= 1)
    return 0;
  auto ranks = double(group.ranks);
  // With shared memory each rank reads its slice of every rank's gradients.
  return sendSeconds(sharedMemory ? bytes : bytes / ranks * (ranks - 1), group);
}

double Device::allReduceSeconds(double bytes, const RankGroup &group) const {
  return reduceScatterSeconds(bytes, group) + gatherSeconds(bytes, group);
}

// All parts are sent side by side, in one step: those for the own machine over
// its links, the others by the rank's part of the network.
double Device::allToAllSeconds(double bytes, const RankGroup &group) const {
  if (group.ranks <= 1)
    return 0;
  int64_t here = ranksHere(group);
  double part = bytes / double(group.ranks);
  double wire = part * double(here - 1) / within.bytesPerSecond;
  if (here < group.ranks)
    wire = std::max(wire, part * double(group.ranks - here) *
                              double(perMachine) / across.bytesPerSecond);
  double least = protocols.empty() ? wire : INFINITY;
  for (const Protocol &protocol : protocols)
    least = std::min(least, protocol.baseSeconds +
                                (here < group.ranks ? protocol.acrossStep
                                                    : protocol.withinStep) +
                                wire / protocol.share);
  return least;
}

int64_t Device::latencyBytes(const RankGroup &group) const {
  if (group.ranks <= 1)
    return 0;
  auto ranks = double(group.ranks);
  double perByte =
      (sharedMemory ? 1 : ranks - 1) / ranks / linkOf(group).bytesPerSecond;
  return std::llround(latencySeconds(group) / perByte);
}

double Device::shareTaken(const RankGroup &group,
                          const RankGroup &others) const {
  if (sharedMemory || others.ranks <= 1)
    return 0;
  if (!isOneMachine(group))
    return isOneMachine(others) ? 0 : 1;
  if (ranksHere(others) == 1) // all that they send leaves the machine
    return 0;
  return linkOf(others).bytesPerSecond / within.bytesPerSecond;
}

const std::pair<const char *, double ThreadRates::*> kThreadRates[8] = {
    {"product_flops", &ThreadRates::productFlops},
    {"product_bytes", &ThreadRates::productBytes},
    {"attention_forward_flops", &ThreadRates::attentionForward},
    {"attention_backward_flops", &ThreadRates::attentionBackward},
    {"loss_flops", &ThreadRates::lossFlops},
    {"row_bytes", &ThreadRates::rowBytes},
    {"column_bytes", &ThreadRates::columnBytes},
    {"slice_bytes", &ThreadRates::sliceBytes}};

void ThreadRates::scale(double factor) {
  for (const auto &[word, rate] : kThreadRates)
    this->*rate *= factor;
}

// Ranks that are more than the threads take turns.
static std::optional<ThreadRates>
ratesOf(const std::optional<Device::Measured> &measured, int threads,
        double turns) {
  if (!measured)
    return std::nullopt;
  ThreadRates rates = threads == 1 ? measured->alone : measured->together;
  rates.scale(threads * turns);
  return rates;
}

Device withThreads(Device device, int threads, int64_t ranksHere) {
  double wanted = double(threads) * double(ranksHere);
  double turns = device.machineThreads > 0
                     ? std::min(1.0, device.machineThreads / wanted)
                     : 1;
  device.f32Rates = ratesOf(device.f32Measured, threads, turns);
  device.halfRates = ratesOf(device.halfMeasured, threads, turns);
  for (double *rate :
       {&device.f32Peak, &device.halfPeak, &device.f32Flops, &device.halfFlops,
        &device.f8Flops, &device.attentionForward, &device.attentionBackward,
        &device.memoryBytesPerSecond})
    *rate *= threads;
  return device;
}

Device cpuDevice(int threads) {
  return withThreads(*deviceNamed("cpu"), threads);
}

Device deviceOfProgram(bool cuda, const std::string &arch, int threads) {
  if (!cuda)
    return cpuDevice(threads);
  return *deviceNamed(arch.rfind("sm_8", 0) == 0 ? "a100-80" : "h100");
}

} // namespace shardonnx
