// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights decoded on the device: bit for bit what the host decodes.

#include "cuda_kernels_util.h"
#include "unpack_problem.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

TEST(CudaUnpack, EveryPackingAndType) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(5);
  for (int i = 0; i < 36 && !testing::Test::HasFatalFailure(); ++i) {
    UnpackProblem p(random, allValues<Packing>()[size_t(i % 3)],
                    int32_t(i / 3 % 3));
    DeviceBuffer packed(p.packed), to(Buffer(p.d.dtype, p.elements()));
    device.call(
        [&] { shx_unpack(&device.context(), &p.d, packed.data(), to.data()); });
    p.expectDecoded(to.download());
  }
}

} // namespace
