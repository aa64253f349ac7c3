// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Staging.h.

#include "Staging.h"
#include "../../core/Carver.h"
#include "../launch/Launch.h"
#include "Slices.h"
#include "WeightSteps.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

void toDevice(void *to, const void *from, int64_t bytes, CUstream stream) {
  check(driver().cuMemcpyHtoDAsync(deviceAddress(to), from,
                                   static_cast<size_t>(bytes), stream),
        "copying offloaded slices to the GPU");
}
void toHost(void *to, const void *from, int64_t bytes, CUstream stream) {
  check(driver().cuMemcpyDtoHAsync(to, deviceAddress(from),
                                   static_cast<size_t>(bytes), stream),
        "copying offloaded slices to the host");
}

constexpr int64_t kFloat = sizeof(float);

} // namespace

Staging::Staging(Context &context)
    : context(context), withMasters(context.state->offload == Offload::Params),
      memory(context.state->plan.stagingBytes, "offload buffers"),
      parts(kOffloadParts) {
  const State &state = *context.state;
  int64_t elements = state.plan.stagingElements;
  Carver carver(memory.data(), kDeviceAlignmentBytes);
  for (Part &part : parts) {
    OwnedUnit places;
    places.momentType = state.manifest.optimizerType;
    places.carveMoments(carver, state.manifest.optimizerStates(), elements);
    std::copy_n(places.moments, 2, part.moments);
    std::copy_n(places.scales, 2, part.scales);
    if (!withMasters)
      continue;
    part.master =
        carver.take<uint8_t>(elements * state.plan.stagingMasterBytes);
    part.cast = carver.take<uint8_t>(elements * state.plan.stagingCastBytes);
  }
}

void Staging::record(Point &point, CUstream stream) const {
  if (context.preparing())
    return;
  point.event.record(stream);
  point.recorded = true;
}

void Staging::wait(const Point &point, CUstream stream) const {
  if (!context.preparing() && point.recorded)
    point.event.wait(stream);
}

void Staging::wait(CUstream stream) const {
  if (lastStored)
    wait(*lastStored, stream);
}

void Staging::begin() {
  next = 0;
  lastStored = nullptr;
  for (Part &part : parts)
    part.loaded.recorded = part.computed.recorded = part.stored.recorded =
        false;
  record(begun, context.compute);
  wait(begun, loads);
  wait(begun, stores);
}

void Staging::end() {
  record(loadsEnd, loads);
  wait(loadsEnd, context.compute);
  record(begun, stores);
  wait(begun, context.compute);
  lastStored = nullptr;
}

void Staging::update(size_t unit, const ShxDeviceKernel &kernel) {
  const UnitState &u = context.state->units[unit];
  int64_t count = u.owned.size();
  int64_t step = context.state->plan.stagingElements;
  for (int64_t begin = 0; begin < count; begin += step) {
    Interval interval{begin, std::min(begin + step, count)};
    Part &part = parts[next];
    next = (next + 1) % parts.size();
    load(part, u, interval);
    compute(part, u, interval, kernel);
    store(part, u, interval);
    lastStored = &part.stored;
  }
}

template <typename Copy>
void Staging::forCopied(Part &part, const UnitState &u,
                        const Interval &interval, Copy copy) const {
  int64_t moment = dtypeBytes(u.momentType);
  int64_t block = interval.begin / kStateBlock;
  int64_t master = u.masterBytes();
  for (int i = 0; i < context.state->manifest.optimizerStates(); ++i) {
    copy(part.moments[i], u.moments[i] + interval.begin * moment,
         interval.size() * moment);
    if (u.blockwise())
      copy(part.scales[i], u.scales[i] + block,
           stateBlocks(interval.size()) * kFloat);
  }
  if (withMasters)
    copy(part.master, u.master + interval.begin * master,
         interval.size() * master);
}

// Into buffers that this function's last part has left.
void Staging::load(Part &part, const UnitState &u, const Interval &interval) {
  wait(part.stored, loads);
  if (!context.preparing()) {
    forCopied(part, u, interval,
              [&](void *staged, const void *slice, int64_t bytes) {
                toDevice(staged, slice, bytes, loads);
              });
    int64_t element = dtypeBytes(u.unit->paramType);
    if (withMasters && u.halves)
      toDevice(part.cast, u.hostParams + interval.begin * element,
               interval.size() * element, loads);
  }
  record(part.loaded, loads);
}

void Staging::compute(Part &part, const UnitState &u, const Interval &interval,
                      const ShxDeviceKernel &kernel) {
  wait(part.loaded, context.compute);
  u.forPieces(interval, [&](const Interval &cut, const Piece &piece) {
    OptimizerBuffers buffers = u.optimizerBuffers(cut);
    int64_t at = cut.begin - buffers.piece.begin - interval.begin;
    auto staged = [](auto *base, int64_t offset) {
      return base ? base + offset : nullptr;
    };
    for (int i = 0; i < 2; ++i) {
      buffers.moments[i] =
          staged(part.moments[i], at * dtypeBytes(u.momentType));
      buffers.scales[i] = staged(part.scales[i], at / kStateBlock);
    }
    if (withMasters) {
      buffers.master = staged(part.master, at * u.masterBytes());
      buffers.params = u.unit->sendsMasters()
                           ? nullptr
                           : part.cast + at * dtypeBytes(u.unit->paramType);
    }
    launchOptimizer(context, kernel, piece.decay, buffers);
  });
  if (withMasters && u.unit->gatherType != GatherDtype::Param)
    roundSlice(context, *u.unit, part.master, part.cast, interval.size());
  if (withMasters && context.steps)
    context.steps->add(static_cast<size_t>(u.number), interval,
                       u.unit->sendsMasters() ? part.master : part.cast);
  record(part.computed, context.compute);
}

void Staging::store(Part &part, const UnitState &u, const Interval &interval) {
  wait(part.computed, stores);
  if (!context.preparing()) {
    forCopied(part, u, interval,
              [&](const void *staged, void *slice, int64_t bytes) {
                toHost(slice, staged, bytes, stores);
              });
    int64_t element = dtypeBytes(u.unit->paramType);
    if (withMasters && !u.unit->sendsMasters())
      toHost(u.hostParams + interval.begin * element, part.cast,
             interval.size() * element, stores);
  }
  record(part.stored, stores);
}

int64_t Staging::bytes() const {
  int64_t bytes = 0;
  for (const UnitState &u : context.state->units) {
    const Manifest &manifest = context.state->manifest;
    bytes +=
        2 * manifest.optimizerStates() * manifest.stateBytes(u.owned.size());
    if (withMasters)
      bytes += 2 * u.owned.size() * u.masterBytes();
    if (withMasters && !u.unit->sendsMasters())
      bytes +=
          (u.halves ? 2 : 1) * u.owned.size() * dtypeBytes(u.unit->paramType);
  }
  return bytes;
}

} // namespace shardonnx::rt::cuda
