// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program for a GPU carries beside its host code: the images of its
// kernels, and how each exec.kernel is launched.

#ifndef SHARDONNX_CONVERSION_EXECTOLLVM_DEVICEPROGRAM_H
#define SHARDONNX_CONVERSION_EXECTOLLVM_DEVICEPROGRAM_H

#include "shardonnx/Codegen/GPU/DeviceLaunch.h"
#include "shardonnx/runtime/ABI.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace shardonnx {

struct DeviceProgram {
  struct Image {
    ShxImageKind kind;
    int arch; // 90: sm_90
    std::string bytes;
  };
  std::vector<Image> images;
  /// By exec.kernel; a kernel in two stages is two launches.
  llvm::StringMap<llvm::SmallVector<kernels::DeviceLaunch>> launches;
  /// By optimizerKernelName.
  llvm::StringMap<kernels::DeviceLaunch> optimizers;

  /// The text of the kernels.
  llvm::StringRef ptx() const {
    for (const Image &image : images)
      if (image.kind == SHX_PTX)
        return llvm::StringRef(image.bytes).drop_back(); // of the null byte
    return {};
  }
};

} // namespace shardonnx

#endif // SHARDONNX_CONVERSION_EXECTOLLVM_DEVICEPROGRAM_H
