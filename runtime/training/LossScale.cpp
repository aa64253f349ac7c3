// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See LossScale.h.

#include "LossScale.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

constexpr double kFirst = 65536, kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kCleanSteps = 2000;
// Beyond these, 1 / scale or the scale itself is no normal f32.
constexpr double kLeast = 0x1p-120, kMost = 0x1p120;

} // namespace

LossScale::LossScale(const Options &options, const Manifest &manifest) {
  if (options.lossScale)
    fixed = *options.lossScale;
  else
    dynamic = options.dynamicLossScale || manifest.usesF16();
}

void LossScale::begin(TrainState &state) const {
  if (!dynamic)
    state.lossScale = fixed;
  else if (state.step == 0)
    state.lossScale = kFirst;
}

void LossScale::update(TrainState &state, bool skipped) const {
  if (!dynamic)
    return;
  if (skipped) {
    state.lossScale = std::max(state.lossScale * kBackoff, kLeast);
    state.cleanSteps = 0;
  } else if (++state.cleanSteps == kCleanSteps) {
    state.lossScale = std::min(state.lossScale * kGrowth, kMost);
    state.cleanSteps = 0;
  }
}

} // namespace shardonnx::rt
