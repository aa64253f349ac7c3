// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions on the device.

#include "cuda_kernels_util.h"
#include "depthwise_problem.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

TEST(CudaDepthwiseConv, ResultsAndGradients) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(23);
  for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) {
    DepthwiseProblem p(random);
    SCOPED_TRACE(p.trace());
    ShxDepthwiseConv d = p.d;
    d.kernelDtype = int32_t(random() % 3);
    DeviceBuffer image(p.image), kernel(p.kernel), grad(p.result);
    DeviceBuffer result(Buffer(p.d.resultDtype, p.result.size())),
        imageGrad(Buffer(p.d.imageDtype, p.image.size())),
        kernelGrad(Buffer(d.kernelDtype, p.kernel.size()));
    device.call([&] {
      ShxContext *context = &device.context();
      shx_depthwise_conv(context, &p.d, image.data(), kernel.data(),
                         result.data());
      shx_depthwise_conv_image_grad(context, &p.d, grad.data(), kernel.data(),
                                    imageGrad.data());
      shx_depthwise_conv_kernel_grad(context, &d, image.data(), grad.data(),
                                     kernelGrad.data());
    });
    expectClose(result.download(), p.forward(), precision(p.d.resultDtype),
                "result");
    expectClose(imageGrad.download(), p.imageGrad(), precision(p.d.imageDtype),
                "image's gradient");
    expectClose(kernelGrad.download(), p.kernelGrad(), precision(d.kernelDtype),
                "kernel's gradient");
  }
}

} // namespace
