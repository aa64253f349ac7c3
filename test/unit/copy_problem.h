// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided copies with their result: what the tests of every device's copy
// compare with.

#ifndef SHARDONNX_TEST_UNIT_COPY_PROBLEM_H
#define SHARDONNX_TEST_UNIT_COPY_PROBLEM_H

#include "cpu_kernels_util.h"

namespace shardonnx::test {

// A copy between two tensors whose dims lie in random orders in memory, with
// gaps, and with the source broadcast along some dims.
struct CopyProblem {
  explicit CopyProblem(std::mt19937 &random, bool large) {
    d.rank = int32_t(random() % 5);
    sizeSrc = layOut(random, d.srcStride, large, true);
    sizeDst = layOut(random, d.dstStride, large, false);
  }

  int64_t layOut(std::mt19937 &random, int64_t *stride, bool large,
                 bool first) {
    std::vector<int32_t> order;
    for (int32_t i = 0; i < d.rank; ++i) {
      order.push_back(i);
      if (first)
        d.dims[i] = large ? pick(random, {1, 9, 20, 70})
                          : pick(random, {1, 2, 3, 8, 17});
    }
    if (random() % 2)
      std::shuffle(order.begin(), order.end(), random);
    int64_t size = 1;
    for (size_t at = order.size(); at-- > 0;) {
      bool broadcast = first && random() % 8 == 0;
      stride[order[at]] = broadcast ? 0 : size;
      if (!broadcast)
        size = size * d.dims[order[at]] + int64_t(random() % 8 == 0);
    }
    return size;
  }

  template <typename Body> void forEach(Body body) const {
    int64_t total = 1;
    for (int32_t i = 0; i < d.rank; ++i)
      total *= d.dims[i];
    for (int64_t index = 0; index < total; ++index) {
      int64_t rest = index, src = 0, dst = 0;
      for (int32_t i = d.rank - 1; i >= 0; --i) {
        src += rest % d.dims[i] * d.srcStride[i];
        dst += rest % d.dims[i] * d.dstStride[i];
        rest /= d.dims[i];
      }
      body(src, dst);
    }
  }

  // What `dst` then holds.
  std::vector<double> expected(const Buffer &src, const Buffer &dst) const;

  ShxCopy d{};
  int64_t sizeSrc, sizeDst;
};

inline double convert(int32_t from, int32_t to, double value) {
  if (to == SHX_I1)
    return value != 0;
  if (to == SHX_I32 || to == SHX_I64)
    return std::trunc(value);
  return roundToDtype(
      to, from == SHX_I64 || from == SHX_I32 ? double(float(value)) : value);
}

inline std::vector<double> CopyProblem::expected(const Buffer &src,
                                                 const Buffer &dst) const {
  std::vector<double> result = dst.values();
  forEach([&](int64_t s, int64_t t) {
    double &place = result[size_t(t)];
    place = d.accumulate
                ? roundToDtype(d.dstDtype, double(float(place + src.get(s))))
                : convert(d.srcDtype, d.dstDtype, src.get(s));
  });
  return result;
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_COPY_PROBLEM_H
