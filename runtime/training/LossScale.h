// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loss scale of float16 programs, whose gradients would be zero without
// one: the rule and the numbers of torch.amp.GradScaler. A power of two, so
// that scaling rounds nothing.

#ifndef SHARDONNX_RUNTIME_LOSSSCALE_H
#define SHARDONNX_RUNTIME_LOSSSCALE_H

#include "../core/Options.h"
#include "../core/TrainState.h"
#include "shardonnx/runtime/Manifest.h"

namespace shardonnx::rt {

class LossScale {
public:
  LossScale(const Options &options, const Manifest &manifest);

  bool isDynamic() const { return dynamic; }
  /// Before the first step of a run: a checkpoint's dynamic scale goes on.
  void begin(TrainState &state) const;
  /// Whether a gradient that is not finite is the scale's fault, rather than
  /// the run's: below 1 it is not.
  bool mayBeTooLarge(const TrainState &state) const {
    return dynamic && state.lossScale >= 1;
  }
  /// After a step.
  void update(TrainState &state, bool skipped) const;

private:
  bool dynamic = false;
  double fixed = 1;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_LOSSSCALE_H
