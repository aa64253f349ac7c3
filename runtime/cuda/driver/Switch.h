// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Environment variables that switch something off.

#ifndef SHARDONNX_RUNTIME_CUDA_SWITCH_H
#define SHARDONNX_RUNTIME_CUDA_SWITCH_H

#include <cstdlib>
#include <cstring>

namespace shardonnx::rt::cuda {

inline bool isOff(const char *variable) {
  const char *text = std::getenv(variable);
  return text && std::strcmp(text, "0") == 0;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_SWITCH_H
