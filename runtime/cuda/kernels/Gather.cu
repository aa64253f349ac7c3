// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slices as --gather-dtype rounds and sends them (GatherCodes.h): a warp has a
// block of elements, each of its lanes eight of them.

#include "Device.cuh"
#include "Shapes.h"
#include "shardonnx/runtime/GatherCodes.h"

namespace shardonnx::rt::cuda {
namespace {

static_assert(kStateBlock == kWarp * kPack);

// Calls body(block, lane) for each block of the warp; a lane's elements begin
// at `lane` of the block.
template <typename Body>
__device__ void forBlocks(int64_t blocks, const Body &body) {
  int64_t step = int64_t(gridDim.x) * (kGatherThreads / kWarp);
  int64_t lane = kPack * int64_t(cuda::lane());
  int64_t block = int64_t(blockIdx.x) * (kGatherThreads / kWarp) + warp();
  for (; block < blocks; block += step)
    body(block, lane);
}

__device__ uint8_t exponentOf(bool f8, const Pack &pack) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    largest = max(largest, floatBits(pack.x[i]) & 0x7fffffffu);
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
  return gatherExponent(f8, largest);
}

__device__ Pack roundToCodes(bool f8, uint8_t exponent, Pack pack) {
  float inverse = gatherInverse(exponent);
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    pack.x[i] = roundToCode(f8, pack.x[i], inverse);
  return pack;
}

template <int32_t From, int32_t To>
__device__ void roundSlice(int32_t type, const void *from, void *to,
                           int64_t blocks) {
  bool f8 = GatherDtype(type) == GatherDtype::F8;
  forBlocks(blocks, [=](int64_t block, int64_t lane) {
    int64_t begin = block * kStateBlock + lane;
    Pack pack = loadPack<From>(typed<From>(from, begin));
    if (GatherDtype(type) == GatherDtype::BF16) {
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        pack.x[i] = Float<SHX_BF16>::widen(Float<SHX_BF16>::narrow(pack.x[i]));
    } else {
      uint8_t exponent = exponentOf(f8, pack);
      float scale = gatherScale(exponent);
      pack = roundToCodes(f8, exponent, pack);
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        pack.x[i] *= scale;
    }
    storePack<To>(typed<To>(to, begin), pack);
  });
}

template <int32_t From>
__device__ void encodeSlice(int32_t type, const void *from, uint8_t *image,
                            int64_t blocks) {
  bool f8 = GatherDtype(type) == GatherDtype::F8;
  forBlocks(blocks, [=](int64_t block, int64_t lane) {
    int64_t begin = block * kStateBlock + lane;
    Pack pack = loadPack<From>(typed<From>(from, begin));
    if (GatherDtype(type) == GatherDtype::BF16) {
      storePack<SHX_BF16>(typed<SHX_BF16>(image, begin), pack);
      return;
    }
    uint8_t exponent = exponentOf(f8, pack);
    pack = roundToCodes(f8, exponent, pack);
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      words[i / 4] |= uint32_t(codeOfRounded(f8, pack.x[i])) << 8 * (i % 4);
    *reinterpret_cast<uint2 *>(image + begin) = make_uint2(words[0], words[1]);
    if (lane == 0)
      image[blocks * kStateBlock + block] = exponent;
  });
}

// Of the images of slices of sliceBlocks, which lie imageBytes apart.
template <int32_t To>
__device__ void decodeImages(int32_t type, const uint8_t *images,
                             int64_t imageBytes, void *out, int64_t sliceBlocks,
                             int64_t blocks) {
  bool f8 = GatherDtype(type) == GatherDtype::F8;
  forBlocks(blocks, [=](int64_t block, int64_t lane) {
    const uint8_t *image = images + block / sliceBlocks * imageBytes;
    int64_t inSlice = block % sliceBlocks;
    int64_t from = inSlice * kStateBlock + lane;
    int64_t to = block * kStateBlock + lane;
    if (GatherDtype(type) == GatherDtype::BF16) {
      storePack<To>(typed<To>(out, to),
                    loadPack<SHX_BF16>(typed<SHX_BF16>(image, from)));
      return;
    }
    uint2 words = *reinterpret_cast<const uint2 *>(image + from);
    float scale = gatherScale(image[sliceBlocks * kStateBlock + inSlice]);
    Pack pack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      uint32_t word = i < 4 ? words.x : words.y;
      pack.x[i] = valueOfCode(f8, uint8_t(word >> 8 * (i % 4))) * scale;
    }
    storePack<To>(typed<To>(out, to), pack);
  });
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

// `from` and `to` are multiples of 16 bytes, slices of whole blocks.
#define SHX_ROUND_SLICE(suffix, From, To)                                      \
  extern "C" __global__ void __launch_bounds__(kGatherThreads)                 \
      shx_k_round_slice_##suffix(int32_t type, const void *from, void *to,     \
                                 int64_t blocks) {                             \
    roundSlice<From, To>(type, from, to, blocks);                              \
  }
SHX_FOR_FLOAT_PAIRS(SHX_ROUND_SLICE)

#define SHX_ENCODE_SLICE(suffix, From)                                         \
  extern "C" __global__ void __launch_bounds__(kGatherThreads)                 \
      shx_k_encode_slice_##suffix(int32_t type, const void *from, void *image, \
                                  int64_t blocks) {                            \
    encodeSlice<From>(type, from, static_cast<uint8_t *>(image), blocks);      \
  }
SHX_FOR_FLOATS(SHX_ENCODE_SLICE)

#define SHX_DECODE_IMAGES(suffix, To)                                          \
  extern "C" __global__ void __launch_bounds__(kGatherThreads)                 \
      shx_k_decode_images_##suffix(int32_t type, const void *images,           \
                                   int64_t imageBytes, void *to,               \
                                   int64_t sliceBlocks, int64_t blocks) {      \
    decodeImages<To>(type, static_cast<const uint8_t *>(images), imageBytes,   \
                     to, sliceBlocks, blocks);                                 \
  }
SHX_FOR_FLOATS(SHX_DECODE_IMAGES)
