// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What follows a matrix product where cuBLASLt does not do it itself, or does
// it more slowly: bias and GELU (tanh's form) and their gradients, in place.
//   gelu(x)  = x/2 · (1 + tanh u),  u = √(2/π) · (x + 0.044715·x³)
//   gelu'(x) = (1 + tanh u)/2 + x/2 · (1 - tanh² u) · u'

#include "Device.cuh"
#include "GemmShapes.h"

namespace shardonnx::rt::cuda {
namespace {

constexpr float kScale = 0.7978845608028654f, kCubic = 0.044715f;

__device__ float tanhOfCubic(float x) {
  return tanhf(kScale * (x + kCubic * x * x * x));
}
__device__ float gelu(float x) { return 0.5f * x * (1 + tanhOfCubic(x)); }
__device__ float geluSlope(float x) {
  float t = tanhOfCubic(x);
  return 0.5f * (1 + t) +
         0.5f * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x);
}

// aux is read for a gradient and as a bias, else written.
__device__ float finish(int32_t epilogue, float c, float bias, float &aux) {
  switch (epilogue) {
  case SHX_EPILOGUE_BIAS: // one of the two is not there
    return c + bias + aux;
  case SHX_EPILOGUE_GELU_BIAS:
    aux = c + bias;
    return gelu(aux);
  default:
    return c * geluSlope(aux);
  }
}

__device__ bool readsBias(int32_t epilogue) {
  return epilogue == SHX_EPILOGUE_BIAS || epilogue == SHX_EPILOGUE_GELU_BIAS;
}

__device__ bool writesAux(int32_t epilogue) {
  return epilogue == SHX_EPILOGUE_GELU_BIAS;
}

// packed: columns, strides and addresses allow 16-byte accesses.
template <int32_t Type>
__device__ void epilogueOf(void *c, const void *bias, void *aux, int64_t rows,
                           int64_t columns, int64_t ld, int32_t epilogue,
                           int32_t packed) {
  int64_t i = int64_t(blockIdx.x) * kEpilogueThreads + threadIdx.x;
  int64_t each = packed ? columns / kPack : columns;
  if (i >= rows * each)
    return;
  int64_t row = i / each, column = i % each;
  if (packed) {
    column *= kPack;
    Stored<Type> *to = typed<Type>(c, row * ld + column);
    Stored<Type> *side = typed<Type>(aux, row * ld + column);
    Pack value = loadPack<Type>(to), biases{}, sides{};
    if (bias && readsBias(epilogue))
      biases = loadPack<Type>(typed<Type>(bias, column));
    if (aux && !writesAux(epilogue))
      sides = loadPack<Type>(side);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      value.x[j] = finish(epilogue, value.x[j], biases.x[j], sides.x[j]);
    storePack<Type>(to, value);
    if (aux && writesAux(epilogue))
      storePack<Type>(side, sides);
    return;
  }
  Stored<Type> *to = typed<Type>(c, row * ld + column);
  Stored<Type> *side = typed<Type>(aux, row * ld + column);
  float add = bias && readsBias(epilogue)
                  ? Float<Type>::widen(*typed<Type>(bias, column))
                  : 0.f;
  float x = aux && !writesAux(epilogue) ? Float<Type>::widen(*side) : 0.f;
  *to = Float<Type>::narrow(finish(epilogue, Float<Type>::widen(*to), add, x));
  if (aux && writesAux(epilogue))
    *side = Float<Type>::narrow(x);
}

// partial[split][column] = the sum of the split's rows; every lane adds a pack
// of columns, the warps take turns at the rows, and are added in their order.
template <int32_t Type>
__device__ void columnSums(const void *from, float *partial, int64_t rows,
                           int64_t columns, int64_t ld, int64_t rowsPerSplit,
                           int32_t packed) {
  __shared__ float sums[kColumnWarps][kColumnsPerBlock];
  int64_t first = int64_t(blockIdx.x) * kColumnsPerBlock;
  int64_t column = first + lane() * kPack;
  int64_t begin = int64_t(blockIdx.y) * rowsPerSplit;
  int64_t end = begin + rowsPerSplit < rows ? begin + rowsPerSplit : rows;
  Pack sum{};
#pragma unroll 4
  for (int64_t row = begin + warp(); row < end; row += kColumnWarps) {
    const Stored<Type> *at = typed<Type>(from, row * ld + column);
    Pack value{};
    if (packed && column < columns)
      value = loadPack<Type>(at);
    else
      for (int j = 0; j < kPack; ++j)
        value.x[j] = column + j < columns ? Float<Type>::widen(at[j]) : 0.f;
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      sum.x[j] += value.x[j];
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j)
    sums[warp()][lane() * kPack + j] = sum.x[j];
  __syncthreads();
  if (first + threadIdx.x >= columns)
    return;
  float total = 0;
  for (int w = 0; w < kColumnWarps; ++w)
    total += sums[w][threadIdx.x];
  partial[int64_t(blockIdx.y) * columns + first + threadIdx.x] = total;
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_GEMM_EPILOGUE(suffix, Type)                                        \
  extern "C" __global__ void __launch_bounds__(kEpilogueThreads)               \
      shx_k_gemm_epilogue_##suffix(void *c, const void *bias, void *aux,       \
                                   int64_t rows, int64_t columns, int64_t ld,  \
                                   int32_t epilogue, int32_t packed) {         \
    epilogueOf<Type>(c, bias, aux, rows, columns, ld, epilogue, packed);       \
  }
SHX_FOR_FLOATS(SHX_GEMM_EPILOGUE)

#define SHX_COLUMN_SUMS(suffix, Type)                                          \
  extern "C" __global__ void __launch_bounds__(kColumnsPerBlock)               \
      shx_k_column_sums_##suffix(const void *from, float *partial,             \
                                 int64_t rows, int64_t columns, int64_t ld,    \
                                 int64_t rowsPerSplit, int32_t packed) {       \
    columnSums<Type>(from, partial, rows, columns, ld, rowsPerSplit, packed);  \
  }
SHX_FOR_FLOATS(SHX_COLUMN_SUMS)

// to[column] = the sum of the splits, in their order.
#define SHX_COLUMN_TOTALS(suffix, Type)                                        \
  extern "C" __global__ void __launch_bounds__(kColumnsPerBlock)               \
      shx_k_column_totals_##suffix(const float *partial, void *to,             \
                                   int64_t columns, int64_t splits) {          \
    int64_t column = int64_t(blockIdx.x) * kColumnsPerBlock + threadIdx.x;     \
    if (column >= columns)                                                     \
      return;                                                                  \
    float sum = 0;                                                             \
    for (int64_t split = 0; split < splits; ++split)                           \
      sum += partial[split * columns + column];                                \
    *typed<Type>(to, column) = Float<Type>::narrow(sum);                       \
  }
SHX_FOR_FLOATS(SHX_COLUMN_TOTALS)
