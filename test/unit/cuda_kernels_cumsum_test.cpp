// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of lines on the device: shorter and longer than a block, along every
// axis, into other memory and in place.

#include "cuda_kernels_util.h"
#include "cumsum_problem.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

TEST(CudaCumSum, EveryAxisAndType) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(11);
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    CumSumProblem p(random, int32_t(i % 5));
    DeviceBuffer from(p.from), to(Buffer(p.d.dtype, p.from.size()));
    bool inPlace = random() % 3 == 0;
    DeviceBuffer &result = inPlace ? from : to;
    device.call([&] {
      shx_cumsum(&device.context(), &p.d, from.data(), result.data());
    });
    p.expectSums(result.download());
  }
}

} // namespace
