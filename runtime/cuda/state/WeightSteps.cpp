// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See WeightSteps.h.

#include "WeightSteps.h"
#include "../../support/Convert.h"
#include "../launch/Launch.h"
#include "Slices.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt::cuda {

WeightSteps::WeightSteps(Context &context)
    : context(context), count(context.state->manifest.f8Steps()),
      memory(2 * count * static_cast<int64_t>(sizeof(uint32_t)),
             "largest weights") {
  for (const UnitState &u : context.state->units) {
    std::vector<Owned> &owned = units.emplace_back();
    for (const Manifest::Param &param : u.unit->params) {
      const Interval &section = u.section(param.trainable);
      Interval cut{std::max(param.offset, section.begin) - section.begin,
                   std::min(param.offset + param.length(), section.end) -
                       section.begin};
      if (cut.size() > 0)
        for (int64_t step : param.f8Steps)
          owned.push_back({cut, step, param.trainable});
    }
  }
}

// In host memory, where --offload=params keeps them.
static uint32_t largestOnHost(ShxDType dtype, const uint8_t *params,
                              int64_t count) {
  constexpr int64_t kPiece = 1 << 12;
  float values[kPiece];
  uint32_t largest = 0;
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    int64_t n = std::min(kPiece, count - begin);
    widen(dtype, values, params + begin * dtypeBytes(dtype), n);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &values[i], sizeof(bits));
      largest = std::max(largest, bits & 0x7fffffffu);
    }
  }
  return largest;
}

static ShxDType sourceType(const UnitState &u) {
  return u.unit->inCodes() ? u.unit->masterType : u.unit->paramType;
}

/// `from` is what the unit's source has of the cut.
void WeightSteps::join(const UnitState &unit, const Interval &cut,
                       const uint8_t *from, uint32_t *to) const {
  joinLargest(context, sourceType(unit), from, cut.size(),
              /*toBF16=*/unit.unit->inCodes(), to);
}

/// What is offloaded is read by the host, before anything else runs.
static void joinOnHost(const UnitState &unit, const Interval &cut,
                       const uint8_t *from, uint32_t *to) {
  uint32_t before = 0;
  check(driver().cuMemcpyDtoH(&before, deviceAddress(to), sizeof(before)),
        "reading a largest weight");
  uint32_t now =
      std::max(before, largestOnHost(unit.unit->paramType, from, cut.size()));
  writeNow(deviceAddress(to), &now, sizeof(now), "writing a largest weight");
}

void WeightSteps::start() {
  bool onHost = context.state->offload == Offload::Params;
  auto joinAll = [&](bool trainable, uint32_t *to) {
    for (size_t u = 0; u < units.size(); ++u) {
      const UnitState &unit = context.state->units[u];
      const uint8_t *section = !trainable ? unit.frozen
                               : onHost   ? unit.hostParams
                                          : source(unit);
      for (const Owned &owned : units[u]) {
        if (owned.trainable != trainable)
          continue;
        const uint8_t *from =
            section + owned.cut.begin * dtypeBytes(sourceType(unit));
        if (onHost)
          joinOnHost(unit, owned.cut, from, to + owned.step);
        else
          join(unit, owned.cut, from, to + owned.step);
      }
    }
  };
  joinAll(/*trainable=*/false, kept());
  forget();
  check(driver().cuStreamSynchronize(context.compute),
        "keeping the largest frozen weights");
  joinAll(/*trainable=*/true, largest());
  finish();
}

/// What was trained: the next update finds it anew.
void WeightSteps::forget() const {
  copyBytes(context, context.compute, largest(), kept(),
            count * static_cast<int64_t>(sizeof(uint32_t)));
}

void WeightSteps::add(size_t unit, const Interval &part, const uint8_t *from) {
  const UnitState &u = context.state->units[unit];
  for (const Owned &owned : units[unit]) {
    Interval cut{std::max(owned.cut.begin, part.begin),
                 std::min(owned.cut.end, part.end)};
    if (owned.trainable && cut.size() > 0)
      join(u, cut, from + (cut.begin - part.begin) * dtypeBytes(sourceType(u)),
           largest() + owned.step);
  }
}

void WeightSteps::castUnit(size_t unit) const {
  const UnitState &u = context.state->units[unit];
  int64_t master = u.elementBytes(StateArray::Master);
  for (const Owned &owned : units[unit])
    castToCodes(context, u.unit->masterType,
                u.master + owned.cut.begin * master,
                context.cells.steps + owned.step * SHX_STEP_STRIDE,
                u.params + owned.cut.begin, owned.cut.size());
  context.collectives->updated(unit);
}

void WeightSteps::finish() {
  context.collectives->largest(largest(), static_cast<size_t>(count));
  takeF8Steps(context, largest(), context.cells.steps, count);
  for (size_t u = 0; u < units.size(); ++u)
    if (context.state->units[u].unit->inCodes())
      castUnit(u);
  forget();
}

} // namespace shardonnx::rt::cuda
