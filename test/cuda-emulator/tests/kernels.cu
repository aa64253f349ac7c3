// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for the tests of the emulated device: right ones whose results are
// compared with the host's, and wrong ones whose mistakes must be found.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" {

/// Row sums: shuffles in warps, shared memory between them.
__global__ void rowSums(const float *in, float *out, int columns) {
  __shared__ float partial[32];
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    sum += in[blockIdx.x * columns + c];
  for (int offset = 16; offset; offset /= 2)
    sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int offset = 16; offset; offset /= 2)
      sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0)
      out[blockIdx.x] = sum;
  }
}

/// C = A B through tiles of shared memory.
__global__ void tiledMatmul(const float *a, const float *b, float *c, int n) {
  __shared__ float ta[16][16], tb[16][17];
  int row = blockIdx.y * 16 + threadIdx.y,
      column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int x = 0; x < 16; ++x)
      sum += ta[threadIdx.y][x] * tb[x][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

/// Steps of the Collatz sequence: every lane loops for a time of its own.
__global__ void collatz(const unsigned *in, unsigned *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned steps = 0;
  unsigned long long x = in[i];
  while (x != 1) {
    if (x % 2)
      x = 3 * x + 1;
    else
      x /= 2;
    if (++steps > 1000)
      break;
  }
  switch (in[i] % 5) {
  case 0:
    steps += 10;
    break;
  case 1:
    steps *= 3;
    break;
  case 2:
    steps ^= 7;
    break;
  case 3:
    steps = 1000 - steps;
    break;
  default:
    break;
  }
  out[i] = steps;
}

/// Functions of the device's library and bf16 in memory.
__global__ void mathFunctions(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float x = in[i];
  out[i * 10 + 0] = expf(x);
  out[i * 10 + 1] = tanhf(x);
  out[i * 10 + 2] = logf(fabsf(x) + 0.1f);
  out[i * 10 + 3] = sinf(x);
  out[i * 10 + 4] = erff(x);
  out[i * 10 + 5] = rsqrtf(fabsf(x) + 0.5f);
  out[i * 10 + 6] = x / 3.0f;
  out[i * 10 + 7] = static_cast<float>(sqrt(static_cast<double>(x) * x + 2.0));
  out[i * 10 + 8] = powf(fabsf(x), 1.5f);
  out[i * 10 + 9] = fminf(x, 0.25f) + fmaxf(x, -0.25f) + floorf(x) + rintf(x);
}

__global__ void bf16Axpy(const __nv_bfloat16 *x, const __nv_bfloat16 *y,
                         __nv_bfloat16 *out, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] =
        __float2bfloat16(a * __bfloat162float(x[i]) + __bfloat162float(y[i]));
}

__global__ void halfPairs(const __half2 *x, const __half2 *y, __half2 *out,
                          int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = __hmax2(__hfma2(x[i], y[i], x[i]), __hsub2(x[i], y[i]));
}

/// One 16 x 8 x 16 product of bf16 with ldmatrix and mma.
__global__ void tensorCore(const __nv_bfloat16 *a, const __nv_bfloat16 *b,
                           float *c) {
  __shared__ __align__(16) __nv_bfloat16 sa[16 * 16], sb[16 * 8];
  unsigned lane = threadIdx.x;
  for (int k = lane; k < 256; k += 32)
    sa[k] = a[k];
  for (int k = lane; k < 128; k += 32)
    sb[k] = b[k]; // row-major K x N
  __syncwarp();
  uint32_t ra[4], rb[2];
  uint32_t pa = static_cast<uint32_t>(
      __cvta_generic_to_shared(&sa[(lane % 16) * 16 + lane / 16 * 8]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(pa));
  uint32_t pb =
      static_cast<uint32_t>(__cvta_generic_to_shared(&sb[(lane % 16) * 8]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(pb));
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]),
                 "r"(rb[1]));
  unsigned row = lane / 4, column = lane % 4 * 2;
  c[row * 8 + column] = d[0];
  c[row * 8 + column + 1] = d[1];
  c[(row + 8) * 8 + column] = d[2];
  c[(row + 8) * 8 + column + 1] = d[3];
}

/// Reverses 128 words through shared memory, copied asynchronously.
__global__ void asyncReverse(const float4 *in, float4 *out, int wait) {
  extern __shared__ float4 tile[];
  uint32_t to =
      static_cast<uint32_t>(__cvta_generic_to_shared(&tile[threadIdx.x]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
               "l"(in + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  if (wait)
    asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__device__ unsigned counter = 5;
__constant__ float table[4] = {1, 2, 4, 8};

__device__ __noinline__ float lookUp(int i, float *twice) {
  *twice = 2 * table[i & 3];
  return table[i & 3];
}

/// Atomics, votes, calls, local arrays and 64-bit bit tricks.
__global__ void oddments(float *out, unsigned *bits) {
  float local[8];
  for (int k = 0; k < 8; ++k)
    local[k] = k * 1.5f;
  float twice;
  float once = lookUp(threadIdx.x, &twice);
  out[threadIdx.x] = once + twice + local[threadIdx.x % 8];
  atomicAdd(&counter, threadIdx.x);
  unsigned odd = __ballot_sync(~0u, threadIdx.x & 1);
  bits[threadIdx.x] = __popc(odd) + __clz(threadIdx.x + 1) +
                      __ffs(threadIdx.x) + (__brev(threadIdx.x) >> 27) +
                      __funnelshift_l(threadIdx.x, 7, 3) +
                      __byte_perm(threadIdx.x, 0x01020304, 0x5140);
  __syncthreads();
  if (threadIdx.x == 0)
    out[0] += counter;
}

/// Many additions, for measuring.
__global__ void spin(float *out, int rounds) {
  float x = threadIdx.x, y = 1.0f;
  for (int k = 0; k < rounds; ++k) {
    x = x * 1.0001f + y;
    y = y * 0.9999f + 0.5f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}

// Wrong ones.

__global__ void beyondEnd(float *out, int n) { out[threadIdx.x + n] = 1; }

/// Of a programmatic launch: too early, never, and as it should be.
__global__ void writesEarly(float *out) {
  out[threadIdx.x] = 1;
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__global__ void neverWaits(float *) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__global__ void waitsFirst(float *out) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  out[threadIdx.x] += 1;
}

__global__ void misaligned(float *out) {
  float4 *p = reinterpret_cast<float4 *>(out + 1);
  p[threadIdx.x] = make_float4(0, 0, 0, 0);
}

__global__ void beyondShared(float *out) {
  extern __shared__ float s[];
  s[threadIdx.x + 1] = 1;
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void sharedRace(float *out) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void barrierAfterReturn(float *out) {
  if (threadIdx.x == 3)
    return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void divergentBarrier(float *out) {
  if (threadIdx.x < 7) {
    out[threadIdx.x] = 1;
    __syncthreads();
  } else {
    out[threadIdx.x] = 2;
    __syncthreads();
  }
}

__global__ void missingWarp(float *out) {
  if (threadIdx.x < 32)
    __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void shuffleInactive(float *out) {
  float x = threadIdx.x;
  if (threadIdx.x < 16)
    x = __shfl_xor_sync(~0u, x, 1);
  out[threadIdx.x] = x;
}

/// Reads what another block writes, without an order between them.
__global__ void blockRace(float *data) {
  float before = data[(blockIdx.x + 1) % gridDim.x];
  data[blockIdx.x] = before + 1;
}

/// out[i] = in[i] + 1, one float each.
__global__ void addOne(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = in[i] + 1;
}
}
