// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Going through what a rank owns, parameter by parameter.

#ifndef SHARDONNX_RUNTIME_OWNEDRANGE_H
#define SHARDONNX_RUNTIME_OWNEDRANGE_H

#include "Engine.h"
#include "PackedWeight.h"
#include "ParamPart.h"
#include <algorithm>

namespace shardonnx::rt {

/// A range of a parameter that this rank owns; of a packed one, some of which
/// it owns, all of it, to be written in order.
struct OwnedRange {
  Engine *engine;
  size_t unit;
  const Manifest::Param *param;
  int64_t begin, end; // elements of the parameter, or of this rank's part
  ElementSink *sink = nullptr;

  /// Where this rank's part lies in the whole parameter.
  ParamPart part() const {
    return {*param, engine->tensorRank(), engine->tensor()};
  }

  /// Weights, as masters or frozen.
  void write(int64_t at, const float *values, int64_t count) const {
    if (sink)
      return sink->add(values, count);
    engine->write(unit,
                  param->trainable ? StateArray::Master : StateArray::Frozen,
                  param->offset + at, values, count);
  }
};

/// Calls visit(unit, param, interval) with what this rank owns of each
/// parameter's place in its section.
template <typename Visit>
void forOwnedPlaces(const Engine &engine, Visit visit) {
  const std::vector<Manifest::Unit> &units = engine.manifest.units;
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (const Manifest::Param &param : units[unit].params) {
      Interval owned = engine.owned(unit, param.trainable);
      int64_t begin = std::max(owned.begin, param.offset);
      int64_t end = std::min(owned.end, param.offset + param.length());
      if (begin < end)
        visit(unit, param, Interval{begin - param.offset, end - param.offset});
    }
}

/// Calls visit(OwnedRange). A packed weight is written once the visitor has
/// given all of its elements.
template <typename Visit> void forOwned(Engine &engine, Visit visit) {
  forOwnedPlaces(engine, [&](size_t unit, const Manifest::Param &param,
                             const Interval &owned) {
    if (!param.packed)
      return visit(OwnedRange{&engine, unit, &param, owned.begin, owned.end});
    PackedWeight weight(param);
    visit(OwnedRange{&engine, unit, &param, 0, param.elements(), &weight});
    weight.writeTo(engine, unit, owned);
  });
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OWNEDRANGE_H
