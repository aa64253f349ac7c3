// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Grouped products on the device: rows in the order of their groups, products
// and gradients of groups that are large, small and empty, in f32 and on the
// tensor cores, with and without 16-byte accesses.

#include "cuda_kernels_util.h"
#include "index_problem.h"
#include <array>

using namespace shardonnx::test;

namespace {

struct Outcome {
  Buffer routes, product, gradient;
};

Outcome run(const GroupedProblem &p) {
  CudaDevice &device = CudaDevice::get();
  DeviceBuffer a(p.a), c(p.c), matrices(p.matrices), indices(p.indices),
      list(p.routes()), product(p.c), gradient(p.matrices);
  auto *routes = static_cast<int32_t *>(list.data());
  // All at once: nothing waits for the host.
  device.call([&] {
    shardonnx::rt::cuda::Context &context = device.context();
    shx_group_rows(&context, &p.sort, indices.data(), routes, "");
    shx_grouped_gemm(&context, &p.d, a.data(), matrices.data(), routes,
                     product.data());
    shx_grouped_gemm_grad(&context, &p.d, a.data(), c.data(), routes,
                          gradient.data());
  });
  return {list.download(), product.download(), gradient.download()};
}

ShxGroupedGemm shape(int64_t rows, int64_t groups, int64_t depth, int64_t width,
                     int32_t dtype) {
  ShxGroupedGemm d{};
  d.rows = rows;
  d.groups = groups;
  d.depth = d.lda = depth;
  d.width = d.ldc = width;
  d.dtypeA = d.dtypeMatrix = d.dtypeC = dtype;
  return d;
}

void check(const ShxGroupedGemm &d, std::mt19937 &random) {
  SCOPED_TRACE(testing::Message()
               << d.rows << " rows, " << d.groups << " groups, " << d.depth
               << " × " << d.width << ", lda " << d.lda << ", ldc " << d.ldc
               << ", transposed " << d.transposed << ", dtype " << d.dtypeA);
  GroupedProblem p(d, random);
  Outcome outcome = run(p);
  p.expectRoutes(outcome.routes);
  expectClose(outcome.product, p.products(), precision(d.dtypeC), "product");
  expectClose(outcome.gradient, p.gradients(), precision(d.dtypeMatrix),
              "gradient");
}

// One tile and several of rows, columns and terms.
TEST(CudaGroupedGemm, GeneratedShapes) {
  std::mt19937 random(5);
  for (int i = 0; i < 36 && !HasFatalFailure(); ++i) {
    bool odd = random() % 3 == 0;
    ShxGroupedGemm d = shape(
        pick(random, {1, 20, 150, 300}), pick(random, {1, 4, 9, 40}),
        odd ? pick(random, {1, 7, 35}) : pick(random, {8, 40, 136}),
        odd ? pick(random, {1, 33, 131}) : pick(random, {8, 72, 136}), i % 3);
    d.lda += odd ? int64_t(random() % 3) : int64_t(8 * (random() % 2));
    d.ldc += odd ? int64_t(random() % 3) : int64_t(8 * (random() % 2));
    d.transposed = random() % 2;
    check(d, random);
  }
}

// Products keep one type; the matrices' gradient may have another.
TEST(CudaGroupedGemm, GradientsOfOtherTypes) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(6);
  for (auto [type, sums] : {std::pair(SHX_BF16, SHX_F32),
                            {SHX_F16, SHX_F32},
                            {SHX_F32, SHX_BF16},
                            {SHX_F32, SHX_F16}})
    for (int64_t width : {24, 35}) {
      ShxGroupedGemm d = shape(90, 5, 40, width, type);
      d.dtypeMatrix = sums;
      GroupedProblem p(d, random);
      DeviceBuffer a(p.a), c(p.c), indices(p.indices), list(p.routes()),
          gradient(p.matrices);
      auto *routes = static_cast<int32_t *>(list.data());
      device.call([&] {
        shx_group_rows(&device.context(), &p.sort, indices.data(), routes, "");
        shx_grouped_gemm_grad(&device.context(), &d, a.data(), c.data(), routes,
                              gradient.data());
      });
      expectClose(gradient.download(), p.gradients(), precision(sums),
                  "gradient");
    }
}

// A counter for each warp, for some of them, and for one; groups without rows.
TEST(CudaGroupRows, ManyGroups) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(7);
  for (int64_t groups : {3, 128, 257, 1000, 5000, SHX_MOST_GROUPS}) {
    GroupedProblem p(shape(3000, groups, 1, 1, SHX_F32), random);
    DeviceBuffer indices(p.indices), list(p.routes());
    device.call([&] {
      shx_group_rows(&device.context(), &p.sort, indices.data(),
                     static_cast<int32_t *>(list.data()), "");
    });
    p.expectRoutes(list.download());
  }
}

TEST(CudaGroupRows, SaysWhatIsOutside) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(8);
  GroupedProblem p(shape(40, 4, 8, 8, SHX_F32), random);
  p.indices.set(17, 4);
  DeviceValue<std::array<int64_t, 3>> outside;
  DeviceBuffer indices(p.indices), list(p.routes());
  device.context().cells.outside = outside.data()->data();
  const char *what = "node 'experts' (Gather)";
  device.call([&] {
    shx_group_rows(&device.context(), &p.sort, indices.data(),
                   static_cast<int32_t *>(list.data()), what);
  });
  device.context().cells.outside = nullptr;
  std::array<int64_t, 3> told = outside.get();
  EXPECT_EQ(reinterpret_cast<const char *>(told[0]), what);
  EXPECT_EQ(told[1], 4);
  EXPECT_EQ(told[2], 4);
  p.indices.set(17, 0); // where it is counted, so that nothing else moves
  p.expectRoutes(list.download());
}

TEST(CudaGroupedGemm, SameBitsInEveryRun) {
  std::mt19937 random(9);
  GroupedProblem p(shape(400, 3, 64, 136, SHX_BF16), random);
  Outcome first = run(p), second = run(p);
  EXPECT_EQ(first.product, second.product);
  EXPECT_EQ(first.gradient, second.gradient);
}

} // namespace
