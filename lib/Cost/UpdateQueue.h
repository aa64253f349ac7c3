// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizers that run beside the next step's first microbatch, one behind the
// other, at the speed that what runs there leaves them.

#ifndef SHARDONNX_LIB_COST_UPDATEQUEUE_H
#define SHARDONNX_LIB_COST_UPDATEQUEUE_H

#include "shardonnx/Cost/Exposure.h"

#include <deque>

namespace shardonnx {

class UpdateQueue {
public:
  /// `seconds` by itself.
  void add(int64_t unit, double seconds) {
    queue.push_back({unit, seconds, -1});
  }

  /// Seconds by themselves until the unit's is done, and those before it; -1:
  /// until all are.
  double until(int64_t unit) const {
    double sum = 0, found = 0;
    for (const Optimizer &one : queue) {
      sum += one.left;
      if (unit < 0 || one.unit == unit)
        found = sum;
    }
    return found;
  }

  /// What is done in [begin, end), at `rate` of its speed: done(span) of each
  /// that has ended.
  template <typename Done>
  void pass(double begin, double end, double rate, Done done) {
    // Of sums that rounding has left apart.
    constexpr double kNothing = 1e-15;
    for (; !queue.empty() && rate > 0; queue.pop_front()) {
      Optimizer &first = queue.front();
      if (first.begin < 0)
        first.begin = begin;
      double takes = first.left / rate;
      if (begin + takes > end + kNothing) {
        first.left -= rate * (end - begin);
        return;
      }
      begin += takes;
      done(Span{Span::Update, first.unit, first.begin, begin});
    }
  }

private:
  struct Optimizer {
    int64_t unit;
    double left, begin;
  };
  std::deque<Optimizer> queue;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_COST_UPDATEQUEUE_H
