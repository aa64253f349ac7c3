// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Going through what a rank owns, parameter by parameter.

#ifndef SHARDONNX_RUNTIME_OWNEDRANGE_H
#define SHARDONNX_RUNTIME_OWNEDRANGE_H

#include "Engine.h"
#include <algorithm>

namespace shardonnx::rt {

/// A range of a parameter that this rank owns.
struct OwnedRange {
  Engine *engine;
  size_t unit;
  const Manifest::Param *param;
  int64_t begin, end; // elements of the parameter

  /// Weights, as masters or frozen.
  void write(int64_t at, const float *values, int64_t count) const {
    engine->write(unit,
                  param->trainable ? StateArray::Master : StateArray::Frozen,
                  param->offset + at, values, count);
  }
};

template <typename Visit> void forOwned(Engine &engine, Visit visit) {
  const std::vector<Manifest::Unit> &units = engine.manifest.units;
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (const Manifest::Param &param : units[unit].params) {
      Interval owned = engine.owned(unit, param.trainable);
      int64_t begin = std::max(owned.begin, param.offset);
      int64_t end = std::min(owned.end, param.offset + param.elements());
      if (begin < end)
        visit(OwnedRange{&engine, unit, &param, begin - param.offset,
                         end - param.offset});
    }
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OWNEDRANGE_H
