// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Newton-Schulz on the (emulated) device against torch.optim.Muon's, whole and
// in parts.

#include "../../runtime/cuda/calls/NewtonSchulz.h"
#include "../../runtime/cuda/plan/NewtonSchulzPlan.h"
#include "cuda_kernels_util.h"
#include "newton_schulz/reference.h"

using namespace shardonnx::test;
using namespace shardonnx::test::newton_schulz;
using namespace shardonnx::rt::cuda;

namespace {

// `sums`: of how many elements a product is kept in f32.
std::vector<uint16_t> orthogonal(int64_t rows, int64_t columns, int64_t sums) {
  std::vector<uint16_t> matrix = matrixOf(rows, columns);
  auto bytes = int64_t(matrix.size() * sizeof(uint16_t));
  CudaDevice &device = CudaDevice::get(); // before its memory
  DeviceBytes at(bytes), workspace(planNewtonSchulz(rows, columns, sums).bytes);
  auto call = [&] {
    orthogonalize(device.context(), at.data(), rows, columns, workspace.data(),
                  sums);
  };
  device.prepare(call);
  at.upload(matrix.data());
  device.enqueue(call);
  EXPECT_TRUE(workspace.intact());
  EXPECT_TRUE(at.intact());
  at.download(matrix.data());
  return matrix;
}

TEST(CudaNewtonSchulz, IsAsRecorded) {
  for (const Recorded &expected : recorded())
    expectAsRecorded(expected, orthogonal(expected.rows, expected.columns,
                                          kNewtonSchulzSums));
}

TEST(CudaNewtonSchulz, InParts) {
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{40, 600}, {600, 40}, {300, 300}}) {
    NewtonSchulzPlan plan = planNewtonSchulz(rows, columns, /*sums=*/1);
    ASSERT_LT(plan.block, plan.most);
    Matrix exact = exactly(rows, columns);
    // Both are rounded alike; the order of sums differs.
    double whole =
        distance(orthogonal(rows, columns, kNewtonSchulzSums), exact);
    EXPECT_NEAR(distance(orthogonal(rows, columns, 1), exact), whole,
                whole / 2);
  }
}

} // namespace
