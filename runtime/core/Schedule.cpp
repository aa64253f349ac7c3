// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Schedule.h.

#include "Schedule.h"
#include <algorithm>
#include <cmath>

namespace shardonnx::rt {

double Schedule::at(int64_t step) const {
  if (step <= warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (kind == Kind::Constant)
    return peak;
  int64_t begin = warmup; // the last step at the full rate
  if (kind == Kind::WSD)
    begin = std::max(begin, steps - std::max<int64_t>(1, steps / 5));
  if (step <= begin)
    return peak;
  double part = static_cast<double>(step - begin) /
                static_cast<double>(std::max<int64_t>(1, steps - begin));
  if (kind == Kind::Cosine)
    part = (1 - std::cos(std::acos(-1.0) * part)) / 2;
  return peak + (floor - peak) * part;
}

} // namespace shardonnx::rt
