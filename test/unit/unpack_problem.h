// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A packed weight with its elements: what the tests of every device's
// shx_unpack compare with.

#ifndef SHARDONNX_TEST_UNIT_UNPACK_PROBLEM_H
#define SHARDONNX_TEST_UNIT_UNPACK_PROBLEM_H

#include "../../runtime/support/Packer.h"
#include "cpu_kernels_util.h"
#include "shardonnx/runtime/Unpack.h"

namespace shardonnx::test {

struct UnpackProblem {
  UnpackProblem(std::mt19937 &random, Packing packing, int32_t dtype)
      : d{pick(random, {1, 3, 40}), pick(random, {1, 7, 64, 130, 1000}),
          int32_t(packing), dtype},
        packed(SHX_I32, packedLayout(packing, d.rows, d.columns).bytes / 4),
        expected(elements()) {
    std::normal_distribution<float> normal(0, 0.02f);
    rt::Packer packer(packing, d.rows, d.columns);
    for (int64_t i = 0; i < elements(); ++i) {
      float value = normal(random);
      packer.add(&value, 1);
    }
    std::vector<uint8_t> bytes = packer.finish();
    std::memcpy(packed.data(), bytes.data(), bytes.size());
    Unpacker(packing, d.rows, d.columns, packed.data())
        .decode(0, elements(), expected.data());
  }

  int64_t elements() const { return d.rows * d.columns; }

  void expectDecoded(const Buffer &to) const {
    SCOPED_TRACE(testing::Message()
                 << "packing " << d.packing << ", " << d.rows << " x "
                 << d.columns << ", dtype " << d.dtype);
    for (int64_t i = 0; i < elements(); ++i)
      ASSERT_EQ(to.get(i), roundToDtype(d.dtype, double(expected[size_t(i)])))
          << "at " << i;
  }

  ShxUnpack d;
  Buffer packed;
  std::vector<float> expected;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_UNPACK_PROBLEM_H
