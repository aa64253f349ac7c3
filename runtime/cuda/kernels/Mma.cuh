// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels of the tensor cores share: 16-bit products with f32 sums, and
// copies to shared memory that nobody waits for until they are needed.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_MMA_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_MMA_CUH

#include "Device.cuh"

namespace shardonnx::rt::cuda {

/// Four 8 × 8 matrices: lane l gives the address of row l % 8 of matrix l / 8.
template <bool Transposed>
__device__ void loadMatrices(uint32_t (&x)[4], const uint16_t *at) {
  uint32_t address = uint32_t(__cvta_generic_to_shared(at));
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

/// c (16 × 8) += a (16 × 16) · b (16 × 8)
template <int32_t Type>
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1) {
  if constexpr (Type == SHX_BF16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Where a thread's elements of a 16 × 8 result are: rows lane/4 and 8 further,
/// this column and the next.
__device__ inline int ownRow(int half) { return lane() / 4 + 8 * half; }
__device__ inline int ownColumn() { return lane() % 4 * 2; }

/// 16 bytes from device to shared memory, or zeros.
__device__ inline void copyAsync(uint16_t *to, const uint16_t *from,
                                 bool zero) {
  const uint32_t address = uint32_t(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(zero ? 0 : 16)
               : "memory");
}
/// A float, or zero.
__device__ inline void copyAsync(float *to, const float *from, bool zero) {
  const uint32_t address = uint32_t(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(address), "l"(from), "r"(zero ? 0 : 4)
               : "memory");
}
__device__ inline void closeCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until at most `Open` groups are under way.
template <int Open> __device__ void awaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_MMA_CUH
