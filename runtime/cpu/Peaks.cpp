// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Peaks.h. The best of several runs counts: the others were disturbed.

#include "Peaks.h"
#include "../support/Convert.h"
#include "../support/Mapping.h"
#include "kernels/Pool.h"
#include "shardonnx/runtime/Workspace.h"
#include <algorithm>

namespace shardonnx::rt::cpu {
namespace {

constexpr int64_t kSize = 1024;                // of a square product
constexpr int64_t kFloats = int64_t(24) << 20; // of an array: 96 MiB
constexpr double kSeconds = 0.1;

// The fewest seconds of a call, after one that does not count.
template <typename Call> double fastest(const Call &call) {
  call();
  double best = 1e9;
  int64_t end = monotonicNanoseconds() + int64_t(kSeconds * 1e9);
  for (int64_t now = monotonicNanoseconds(); now < end;) {
    call();
    int64_t then = monotonicNanoseconds();
    best = std::min(best, static_cast<double>(then - now) * 1e-9);
    now = then;
  }
  return best;
}

double productGflops(ShxDType dtype) {
  ShxGemm product{};
  product.m = product.n = product.k = kSize;
  product.lda = product.ldb = product.ldc = kSize;
  product.dtypeA = product.dtypeB = product.dtypeC = dtype;
  auto bytes = static_cast<size_t>(kSize * kSize * dtypeBytes(dtype));
  Mapping a = Mapping::anonymous(bytes, "a product to measure");
  Mapping b = Mapping::anonymous(bytes, "a product to measure");
  Mapping c = Mapping::anonymous(bytes, "a product to measure");
  Mapping workspace = Mapping::anonymous(
      static_cast<size_t>(std::max<int64_t>(cpuLibraries().gemm(product), 64)),
      "a product to measure");
  std::vector<float> ones(static_cast<size_t>(kSize * kSize), 1.0F);
  narrow(dtype, a.data(), ones.data(), kSize * kSize);
  narrow(dtype, b.data(), ones.data(), kSize * kSize);
  ShxContext context{};
  double seconds = fastest([&] {
    shx_gemm(&context, &product, a.data(), b.data(), c.data(),
             workspace.data());
  });
  return 2.0 * kSize * kSize * kSize / seconds * 1e-9;
}

double streamGigabytes() {
  auto bytes = static_cast<size_t>(kFloats) * sizeof(float);
  Mapping from = Mapping::anonymous(bytes, "arrays to measure");
  Mapping to = Mapping::anonymous(bytes, "arrays to measure");
  auto *a = reinterpret_cast<float *>(to.data());
  const auto *b = reinterpret_cast<const float *>(from.data());
  auto add = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      a[i] += 0.5F * b[i];
  };
  // Untouched pages would all be one page of zeros.
  parallelRange(kFloats, 1024, [&](int64_t begin, int64_t end) {
    std::fill(reinterpret_cast<float *>(from.data()) + begin,
              reinterpret_cast<float *>(from.data()) + end, 1.0F);
  });
  double seconds = fastest([&] { parallelRange(kFloats, 1024, add); });
  return 3.0 * static_cast<double>(bytes) / seconds * 1e-9;
}

} // namespace

Peaks measurePeaks(ShxDType dtype) {
  return {productGflops(dtype), streamGigabytes(), omp_get_max_threads()};
}

} // namespace shardonnx::rt::cpu
