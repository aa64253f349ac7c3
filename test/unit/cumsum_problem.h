// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of lines with their result: what the tests of every device's shx_cumsum
// compare with.

#ifndef SHARDONNX_TEST_UNIT_CUMSUM_PROBLEM_H
#define SHARDONNX_TEST_UNIT_CUMSUM_PROBLEM_H

#include "cpu_kernels_util.h"

namespace shardonnx::test {

// Along one axis of [a, b, c], of elements whose sums f32 holds.
struct CumSumProblem {
  CumSumProblem(std::mt19937 &random, int32_t dtype)
      : axis(int(random() % 3)), from(dtype, draw(random)) {
    int64_t strides[3] = {sizes[1] * sizes[2], sizes[2], 1};
    for (int other = 0; other < 3; ++other) {
      if (other == axis)
        continue;
      d.dims[d.rank] = sizes[other];
      d.fromStride[d.rank] = strides[other];
      d.toStride[d.rank++] = strides[other];
    }
    d.size = sizes[axis];
    d.fromAxisStride = d.toAxisStride = strides[axis];
    d.dtype = dtype;
    d.exclusive = random() % 2;
    d.reverse = random() % 2;
    for (int64_t i = 0; i < from.size(); ++i)
      from.set(i, double(int64_t(random() % 17) - 8) / (dtype < 3 ? 4 : 1));
  }

  int64_t draw(std::mt19937 &random) {
    for (int other = 0; other < 3; ++other)
      sizes[other] = other == axis ? pick(random, {1, 2, 31, 256, 257, 700})
                                   : pick(random, {1, 3, 10});
    return sizes[0] * sizes[1] * sizes[2];
  }

  void expectSums(const Buffer &to) const {
    SCOPED_TRACE(testing::Message()
                 << "axis " << axis << " of " << sizes[0] << " x " << sizes[1]
                 << " x " << sizes[2] << ", dtype " << d.dtype << ", exclusive "
                 << d.exclusive << ", reverse " << d.reverse);
    int64_t step = d.fromAxisStride;
    for (int64_t i = 0; i < from.size(); ++i) {
      int64_t at = i / step % d.size;
      double sum = 0;
      for (int64_t j = 0; j < d.size; ++j)
        if (d.reverse ? j > at : j < at)
          sum += from.get(i + (j - at) * step);
      sum += d.exclusive ? 0 : from.get(i);
      ASSERT_EQ(to.get(i), roundToDtype(d.dtype, sum)) << "at " << i;
    }
  }

  int64_t sizes[3];
  int axis;
  Buffer from;
  ShxCumSum d{};
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_CUMSUM_PROBLEM_H
