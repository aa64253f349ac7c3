// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The learning rate of each step.

#ifndef SHARDONNX_RUNTIME_SCHEDULE_H
#define SHARDONNX_RUNTIME_SCHEDULE_H

#include "shardonnx/runtime/Spelling.h"
#include <cstdint>

namespace shardonnx::rt {

struct Schedule {
  enum class Kind { Constant, Linear, Cosine, WSD };
  Kind kind = Kind::Constant;
  double peak = 1e-3, floor = 0;
  int64_t warmup = 0, steps = 1;

  /// Steps count from 1: peak·step/warmup up to `warmup`, then towards `floor`,
  /// which the last step has.
  double at(int64_t step) const;
};

} // namespace shardonnx::rt

template <> struct shardonnx::Spellings<shardonnx::rt::Schedule::Kind> {
  using Kind = rt::Schedule::Kind;
  static constexpr Spelling<Kind> table[] = {{Kind::Constant, "constant"},
                                             {Kind::Linear, "linear"},
                                             {Kind::Cosine, "cosine"},
                                             {Kind::WSD, "wsd"}};
};

#endif // SHARDONNX_RUNTIME_SCHEDULE_H
