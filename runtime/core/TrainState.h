// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a checkpoint stores so that a run goes on from it as if it had never
// stopped: how far the run has come, and which arrays each unit has.

#ifndef SHARDONNX_RUNTIME_TRAINSTATE_H
#define SHARDONNX_RUNTIME_TRAINSTATE_H

#include <cstdint>
#include <limits>

namespace shardonnx::rt {

struct TrainState {
  int64_t step = 0;           // finished steps
  int64_t optimizerSteps = 0; // of them, those that changed the weights
  int64_t samples = 0;        // consumed
  double lossScale = 1;       // of float16 programs
  int64_t cleanSteps = 0;     // since lossScale last changed
  int64_t bestStep = 0;       // of the best evaluation; 0: none yet
  double bestLoss = std::numeric_limits<double>::infinity(); // its loss
  int64_t worseSince = 0; // evaluations after it
};

/// What is kept of a unit's sections: the masters and the optimizer's tensors
/// of the trainable one, the values of the frozen one. Of moments in int8 the
/// scales, which count by kStateBlock elements.
enum class StateArray { Master, Moment1, Moment2, Frozen, Scale1, Scale2 };

constexpr bool isMoment(StateArray array) {
  return array == StateArray::Moment1 || array == StateArray::Moment2;
}
constexpr bool isScale(StateArray array) {
  return array == StateArray::Scale1 || array == StateArray::Scale2;
}
/// Of the second moment, which Muon's matrices have not.
constexpr bool isSecond(StateArray array) {
  return array == StateArray::Moment2 || array == StateArray::Scale2;
}
/// The scales of a moment in int8.
constexpr StateArray scalesOf(StateArray moment) {
  return moment == StateArray::Moment1 ? StateArray::Scale1
                                       : StateArray::Scale2;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRAINSTATE_H
