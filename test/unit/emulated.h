// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tests of the CUDA runtime also run where there is a GPU.

#ifndef SHARDONNX_TEST_UNIT_EMULATED_H
#define SHARDONNX_TEST_UNIT_EMULATED_H

#include <dlfcn.h>

namespace shardonnx::test {

// Whether the driver is test/cuda-emulator's.
inline bool isEmulated() {
  void *library = ::dlopen("libcuda.so.1", RTLD_LAZY);
  return library && ::dlsym(library, "shardonnxEmulatorInstructions");
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_EMULATED_H
