// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ABI.h's calls of convolutions that are no matrix products. Its conventions
// hold here; a change is a change of SHX_ABI_VERSION.

#ifndef SHARDONNX_RUNTIME_CONVOLUTIONABI_H
#define SHARDONNX_RUNTIME_CONVOLUTIONABI_H

#include "shardonnx/runtime/ABI.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHX_SPATIAL_AXES 3

// A convolution of each channel with a kernel of its own:
//   result[n, c, o] = Σ_k image[n, c, o·stride + k·dilation - low]·kernel[c, k]
// over three spatial axes, the first ones of size 1 where there are fewer; the
// image is zero outside. All buffers are row-major, sums are f32.
typedef struct ShxDepthwiseConv {
  int64_t batch, channels;
  int64_t image[SHX_SPATIAL_AXES], kernel[SHX_SPATIAL_AXES],
      result[SHX_SPATIAL_AXES];
  int64_t stride[SHX_SPATIAL_AXES], dilation[SHX_SPATIAL_AXES],
      low[SHX_SPATIAL_AXES];
  int32_t imageDtype, kernelDtype, resultDtype; // of the buffers, or gradients
  int32_t reserved;
} ShxDepthwiseConv;

void shx_depthwise_conv(ShxContext *ctx, const ShxDepthwiseConv *desc,
                        const void *image, const void *kernel, void *result);
// image = the gradient of the image, from that of the result.
void shx_depthwise_conv_image_grad(ShxContext *ctx,
                                   const ShxDepthwiseConv *desc,
                                   const void *grad, const void *kernel,
                                   void *image);
// kernel = the gradient of the kernel: each channel's samples are added in
// order.
void shx_depthwise_conv_kernel_grad(ShxContext *ctx,
                                    const ShxDepthwiseConv *desc,
                                    const void *image, const void *grad,
                                    void *kernel);

#ifdef __cplusplus
}
#endif

#endif // SHARDONNX_RUNTIME_CONVOLUTIONABI_H
