// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random bits in device memory, for timing: on zeros a GPU draws less power,
// and runs faster, than in training.

#ifndef SHARDONNX_RUNTIME_CUDA_NOISE_H
#define SHARDONNX_RUNTIME_CUDA_NOISE_H

#include "Memory.h"

namespace shardonnx::rt::cuda {

/// Whole 4-byte words of the memory, as work of the stream: numbers of about 1
/// with either sign and any mantissa, whether they are read as f32, bf16 or
/// f16.
void fillWithNoise(const DeviceMemory &memory, CUstream stream);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NOISE_H
