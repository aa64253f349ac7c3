// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The names of kernels that exist once for each type, or pair of types, of
// their operands: SHX_FOR_FLOATS and SHX_FOR_FLOAT_PAIRS of kernels/Device.cuh
// on the host's side. The names live as long as the program.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELNAMES_H
#define SHARDONNX_RUNTIME_CUDA_KERNELNAMES_H

#include "../../support/Error.h"
#include "shardonnx/runtime/ABI.h"
#include <cstdint>

namespace shardonnx::rt::cuda {

/// The same of one kernel for every type; null where there is none.
struct KernelNames {
  const char *of[3];
  const char *operator()(int32_t dtype) const { return of[dtype]; }
};
struct KernelPairNames {
  const char *of[3][3];
  const char *operator()(int32_t first, int32_t second) const {
    const char *name = of[first][second];
    if (!name)
      fail("no kernel for bf16 and f16 operands of one call: compile the model "
           "with one 16-bit type");
    return name;
  }
};

#define SHX_KERNEL_NAMES(prefix)                                               \
  shardonnx::rt::cuda::KernelNames {                                           \
    { prefix "_f32", prefix "_bf16", prefix "_f16" }                           \
  }
#define SHX_KERNEL_PAIR_NAMES(prefix)                                          \
  shardonnx::rt::cuda::KernelPairNames {                                       \
    {                                                                          \
      {prefix "_f32_f32", prefix "_f32_bf16", prefix "_f32_f16"},              \
          {prefix "_bf16_f32", prefix "_bf16_bf16", nullptr},                  \
          {prefix "_f16_f32", nullptr, prefix "_f16_f16"}                      \
    }                                                                          \
  }

/// Whether 16-byte accesses may begin at all of these.
template <typename... Pointers> bool aligned16(const Pointers *...pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELNAMES_H
