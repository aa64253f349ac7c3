// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a GPU function is launched.

#ifndef SHARDONNX_CODEGEN_GPU_DEVICELAUNCH_H
#define SHARDONNX_CODEGEN_GPU_DEVICELAUNCH_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <string>

namespace shardonnx::kernels {

/// One call of a function of the device module; a kernel is one or several, in
/// order.
struct DeviceLaunch {
  std::string symbol;
  int32_t blockThreads = 0;
  int64_t blocks = 0;           // 0: as many as the elements need
  int64_t elementsPerBlock = 0; // of flat kernels
  int32_t sharedBytes = 0;      // dynamic
  /// Which of inputs, outputs, then workspace goes into each parameter.
  llvm::SmallVector<unsigned> args;
};

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_GPU_DEVICELAUNCH_H
