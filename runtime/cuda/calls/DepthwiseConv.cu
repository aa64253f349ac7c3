// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions: a thread for each place of the result, or element of
// the image; a block for each row of a channel's kernel, which walks over all
// samples. The kernels are nvcc's, their launch is the C++ compiler's.

#include "shardonnx/runtime/ConvolutionABI.h"

namespace shardonnx::rt::cuda {
constexpr int kDepthwiseThreads = 256;
/// Elements of a row of the kernel whose sums a thread has in registers.
constexpr int kDepthwiseTaps = 8;
} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

struct Point {
  int x[SHX_SPATIAL_AXES];
};

__device__ int volume(const int64_t (&sizes)[SHX_SPATIAL_AXES]) {
  return int(sizes[0] * sizes[1] * sizes[2]);
}

__device__ Point pointAt(int at, const int64_t (&sizes)[SHX_SPATIAL_AXES]) {
  int inner = int(sizes[2]), middle = int(sizes[1]);
  return {{at / inner / middle, at / inner % middle, at % inner}};
}

// A block has some elements of one channel of one sample: which, by the number
// of blocks that each has.
struct Part {
  int64_t plane;
  int at;
};
__device__ Part partOf(int size) {
  int blocks = (size + int(blockDim.x) - 1) / int(blockDim.x);
  return {int64_t(blockIdx.x) / blocks,
          int(blockIdx.x % unsigned(blocks) * blockDim.x + threadIdx.x)};
}

template <int32_t Type>
__device__ void conv(const ShxDepthwiseConv &d, const void *image,
                     const void *kernel, void *result) {
  int size = volume(d.result);
  Part part = partOf(size);
  if (part.at >= size)
    return;
  Point place = pointAt(part.at, d.result);
  auto *x = typed<Type>(image, part.plane * volume(d.image));
  auto *w = typed<Type>(kernel, part.plane % d.channels * volume(d.kernel));
  float sum = 0;
  int tap = 0;
  for (int kz = 0; kz < d.kernel[0]; ++kz) {
    int64_t z = place.x[0] * d.stride[0] + kz * d.dilation[0] - d.low[0];
    for (int ky = 0; ky < d.kernel[1]; ++ky) {
      int64_t y = place.x[1] * d.stride[1] + ky * d.dilation[1] - d.low[1];
      bool row = z >= 0 && z < d.image[0] && y >= 0 && y < d.image[1];
      const Stored<Type> *line = x + (z * d.image[1] + y) * d.image[2];
      int64_t at = place.x[2] * d.stride[2] - d.low[2];
      for (int kx = 0; kx < d.kernel[2]; ++kx, ++tap, at += d.dilation[2])
        if (row && at >= 0 && at < d.image[2])
          sum += Float<Type>::widen(line[at]) * Float<Type>::widen(w[tap]);
    }
  }
  *typed<Type>(result, part.plane * size + part.at) = Float<Type>::narrow(sum);
}

// The place that reads an element by one of the kernel's; -1: none does. A
// padded channel has less than 2^31 elements.
__device__ int placeOf(const ShxDepthwiseConv &d, int axis, int at, int tap) {
  int stride = int(d.stride[axis]);
  int from = at + int(d.low[axis]) - tap * int(d.dilation[axis]);
  if (from < 0 || from % stride != 0)
    return -1;
  int place = from / stride;
  return place < int(d.result[axis]) ? place : -1;
}

template <int32_t Type>
__device__ void imageGrad(const ShxDepthwiseConv &d, const void *grad,
                          const void *kernel, void *image) {
  int size = volume(d.image);
  Part part = partOf(size);
  if (part.at >= size)
    return;
  Point at = pointAt(part.at, d.image);
  auto *dy = typed<Type>(grad, part.plane * volume(d.result));
  auto *w = typed<Type>(kernel, part.plane % d.channels * volume(d.kernel));
  float sum = 0;
  int tap = 0;
  for (int kz = 0; kz < d.kernel[0]; ++kz) {
    int z = placeOf(d, 0, at.x[0], kz);
    for (int ky = 0; ky < d.kernel[1]; ++ky) {
      int y = z < 0 ? -1 : placeOf(d, 1, at.x[1], ky);
      const Stored<Type> *line = dy + (z * d.result[1] + y) * d.result[2];
      for (int kx = 0; kx < d.kernel[2]; ++kx, ++tap) {
        int place = y < 0 ? -1 : placeOf(d, 2, at.x[2], kx);
        if (place >= 0)
          sum += Float<Type>::widen(line[place]) * Float<Type>::widen(w[tap]);
      }
    }
  }
  *typed<Type>(image, part.plane * size + part.at) = Float<Type>::narrow(sum);
}

__device__ void storeAs(int32_t dtype, void *to, int64_t at, float value) {
  if (dtype == SHX_F32)
    *typed<SHX_F32>(to, at) = value;
  else if (dtype == SHX_BF16)
    *typed<SHX_BF16>(to, at) = Float<SHX_BF16>::narrow(value);
  else
    *typed<SHX_F16>(to, at) = Float<SHX_F16>::narrow(value);
}

// Every thread adds its places in order, and the block its threads' sums.
template <int32_t Type>
__device__ void kernelGrad(const ShxDepthwiseConv &d, const void *image,
                           const void *grad, void *kernel) {
  __shared__ float shared[kDepthwiseThreads / kWarp];
  int parts = int((d.kernel[2] + kDepthwiseTaps - 1) / kDepthwiseTaps);
  int64_t block = blockIdx.x;
  int first = int(block % parts) * kDepthwiseTaps;
  block /= parts;
  int ky = int(block % d.kernel[1]);
  block /= d.kernel[1];
  int kz = int(block % d.kernel[0]);
  int64_t channel = block / d.kernel[0];
  int size = volume(d.result), imageSize = volume(d.image);
  float sums[kDepthwiseTaps] = {};
  for (int64_t at = threadIdx.x; at < d.batch * size; at += blockDim.x) {
    int64_t plane = at / size * d.channels + channel;
    Point place = pointAt(int(at % size), d.result);
    int64_t z = place.x[0] * d.stride[0] + kz * d.dilation[0] - d.low[0];
    int64_t y = place.x[1] * d.stride[1] + ky * d.dilation[1] - d.low[1];
    if (z < 0 || z >= d.image[0] || y < 0 || y >= d.image[1])
      continue;
    float dy = Float<Type>::widen(*typed<Type>(grad, plane * size + at % size));
    auto *line = typed<Type>(image, plane * imageSize +
                                        (z * d.image[1] + y) * d.image[2]);
    int64_t x = place.x[2] * d.stride[2] + first * d.dilation[2] - d.low[2];
#pragma unroll
    for (int k = 0; k < kDepthwiseTaps; ++k, x += d.dilation[2])
      if (first + k < d.kernel[2] && x >= 0 && x < d.image[2])
        sums[k] += dy * Float<Type>::widen(line[x]);
  }
  int64_t row = ((channel * d.kernel[0] + kz) * d.kernel[1] + ky) * d.kernel[2];
#pragma unroll
  for (int k = 0; k < kDepthwiseTaps; ++k) {
    float sum = blockSum(sums[k], shared);
    if (threadIdx.x == 0 && first + k < d.kernel[2])
      storeAs(d.kernelDtype, kernel, row + first + k, sum);
    __syncthreads();
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_DEPTHWISE(suffix, Type)                                            \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kDepthwiseThreads)                                  \
      shx_k_depthwise_conv_##suffix(ShxDepthwiseConv d, const void *image,     \
                                    const void *kernel, void *result) {        \
    shardonnx::rt::cuda::conv<Type>(d, image, kernel, result);                 \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kDepthwiseThreads)                                  \
      shx_k_depthwise_conv_image_grad_##suffix(                                \
          ShxDepthwiseConv d, const void *grad, const void *kernel,            \
          void *image) {                                                       \
    shardonnx::rt::cuda::imageGrad<Type>(d, grad, kernel, image);              \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kDepthwiseThreads)                                  \
      shx_k_depthwise_conv_kernel_grad_##suffix(                               \
          ShxDepthwiseConv d, const void *image, const void *grad,             \
          void *kernel) {                                                      \
    shardonnx::rt::cuda::kernelGrad<Type>(d, image, grad, kernel);             \
  }
SHX_FOR_FLOATS(SHX_DEPTHWISE)

#else

#include "../launch/Launch.h"
#include <algorithm>

using namespace shardonnx::rt::cuda;

namespace {

int64_t volume(const int64_t (&sizes)[SHX_SPATIAL_AXES]) {
  return sizes[0] * sizes[1] * sizes[2];
}

/// Blocks for every element of every channel, of whole warps.
void launchElements(ShxContext *ctx, const char *const (&names)[3],
                    int32_t dtype, const ShxDepthwiseConv &d, int64_t size,
                    const void *first, const void *second, void *result) {
  int64_t threads = std::min<int64_t>(kDepthwiseThreads, (size + 31) / 32 * 32);
  int64_t blocks = (size + threads - 1) / threads;
  launch(contextOf(ctx), names[dtype], d.batch * d.channels * blocks,
         int(threads), 0, d, first, second, result);
}

} // namespace

void shx_depthwise_conv(ShxContext *ctx, const ShxDepthwiseConv *desc,
                        const void *image, const void *kernel, void *result) {
  static constexpr const char *names[] = {"shx_k_depthwise_conv_f32",
                                          "shx_k_depthwise_conv_bf16",
                                          "shx_k_depthwise_conv_f16"};
  launchElements(ctx, names, desc->imageDtype, *desc, volume(desc->result),
                 image, kernel, result);
}

void shx_depthwise_conv_image_grad(ShxContext *ctx,
                                   const ShxDepthwiseConv *desc,
                                   const void *grad, const void *kernel,
                                   void *image) {
  static constexpr const char *names[] = {
      "shx_k_depthwise_conv_image_grad_f32",
      "shx_k_depthwise_conv_image_grad_bf16",
      "shx_k_depthwise_conv_image_grad_f16"};
  launchElements(ctx, names, desc->imageDtype, *desc, volume(desc->image), grad,
                 kernel, image);
}

void shx_depthwise_conv_kernel_grad(ShxContext *ctx,
                                    const ShxDepthwiseConv *desc,
                                    const void *image, const void *grad,
                                    void *kernel) {
  static constexpr const char *names[] = {
      "shx_k_depthwise_conv_kernel_grad_f32",
      "shx_k_depthwise_conv_kernel_grad_bf16",
      "shx_k_depthwise_conv_kernel_grad_f16"};
  int64_t parts = (desc->kernel[2] + kDepthwiseTaps - 1) / kDepthwiseTaps;
  launch(contextOf(ctx), names[desc->imageDtype],
         desc->channels * desc->kernel[0] * desc->kernel[1] * parts,
         kDepthwiseThreads, 0, *desc, image, grad, kernel);
}

#endif
