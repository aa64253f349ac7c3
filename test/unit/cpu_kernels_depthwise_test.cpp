// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions against loops over every element, by every set of
// inner loops, on one thread and on several: the bits must be the same.

#include "depthwise_problem.h"
#include "shardonnx/runtime/Cpu.h"

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

template <typename Call>
void expectOnThreads(Buffer result, const std::vector<double> &expected,
                     const char *what, Call call) {
  result.fill(77); // whatever lies there is overwritten
  setPoolThreads(1);
  call(result.data());
  expectClose(result, expected, precision(result.dtype), what);
  Buffer again = result;
  again.fill(77);
  setPoolThreads(3);
  call(again.data());
  EXPECT_TRUE(again == result) << what << " on three threads";
}

TEST(CpuDepthwiseConv, ResultsAndGradients) {
  forEachKernelTable([] {
    std::mt19937 random(21);
    for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
      DepthwiseProblem p(random);
      SCOPED_TRACE(p.trace());
      expectOnThreads(p.result, p.forward(), "result", [&](void *to) {
        shx_depthwise_conv(nullptr, &p.d, p.image.data(), p.kernel.data(), to);
      });
      expectOnThreads(
          p.image, p.imageGrad(), "image's gradient", [&](void *to) {
            shx_depthwise_conv_image_grad(nullptr, &p.d, p.result.data(),
                                          p.kernel.data(), to);
          });
      ShxDepthwiseConv d = p.d;
      d.kernelDtype = int32_t(random() % 3);
      expectOnThreads(Buffer(d.kernelDtype, p.kernel.size()), p.kernelGrad(),
                      "kernel's gradient", [&](void *to) {
                        shx_depthwise_conv_kernel_grad(
                            nullptr, &d, p.image.data(), p.result.data(), to);
                      });
    }
  });
}

} // namespace
