// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of GPU functions to what a program carries: machine code for
// named chips, and PTX from which drivers make code for later ones.

#ifndef SHARDONNX_OBJECT_DEVICEIMAGES_H
#define SHARDONNX_OBJECT_DEVICEIMAGES_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace shardonnx {

struct DeviceImage {
  int arch = 0;      // 90 for sm_90
  std::string bytes; // an ELF file, or text
};

struct DeviceImages {
  DeviceImage ptx;                 // of the latest of the chips
  std::vector<DeviceImage> cubins; // by rising arch
  std::string report;              // ptxas -v of all chips
};

/// Succeeds if `chip` is an NVIDIA chip that programs can be made for (sm_80,
/// sm_90, …); the error lists them.
llvm::Error checkDeviceChip(llvm::StringRef chip);

/// Optimises the module (LLVM and NVVM dialects) for a chip and gives its PTX.
llvm::Expected<std::string> emitPTX(mlir::ModuleOp device,
                                    llvm::StringRef chip);

/// PTX and machine code of the module; `ptxas` of the CUDA toolkit makes the
/// latter.
llvm::Expected<DeviceImages>
emitDeviceImages(mlir::ModuleOp device, llvm::ArrayRef<std::string> chips);

/// Where ptxas lies: where the build found it, in $CUDA_HOME, under
/// /usr/local/cuda, on PATH.
llvm::Expected<std::string> findPtxas();

} // namespace shardonnx

#endif // SHARDONNX_OBJECT_DEVICEIMAGES_H
