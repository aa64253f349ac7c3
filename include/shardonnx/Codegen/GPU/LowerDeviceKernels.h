// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From kernels' descriptions to GPU functions.

#ifndef SHARDONNX_CODEGEN_GPU_LOWERDEVICEKERNELS_H
#define SHARDONNX_CODEGEN_GPU_LOWERDEVICEKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Codegen/GPU/DeviceLaunch.h"
#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/Codegen/Kernel/OptimizerKernel.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx::kernels {

/// What the emitters ask of a GPU. One set of functions serves all chips that a
/// program is made for; the figures are those of the largest.
struct DeviceTarget {
  unsigned multiprocessors = 132;
  unsigned maxBlockThreads = 512; // so that each may have 128 registers
};

/// What a kernel keeps between its launches, in bytes: partial sums of columns.
int64_t deviceWorkspaceBytes(const Kernel &kernel);

/// Adds the kernel's functions to the builder's module, in LLVM and NVVM alone.
/// `alignments`: what the buffers' addresses are multiples of, in bytes; none:
/// 16.
llvm::FailureOr<llvm::SmallVector<DeviceLaunch>>
emitDeviceKernel(mlir::OpBuilder &builder, mlir::Location loc,
                 llvm::StringRef name, const Kernel &kernel,
                 const DeviceTarget &target,
                 llvm::ArrayRef<unsigned> alignments = {});

/// Moves every exec.kernel of the module into the device module. What the
/// module's launches say of their operands' alignment is used. `launches` gets
/// the calls of each; the exec.launch ops stay.
mlir::LogicalResult
lowerDeviceKernels(mlir::ModuleOp module, mlir::ModuleOp device,
                   const DeviceTarget &target,
                   llvm::StringMap<llvm::SmallVector<DeviceLaunch>> &launches);

/// Adds the optimizer's kernel: parameters are master, gradient, two states,
/// what products read (null in f32), scalars, two states' scales (null but in
/// int8) and the members of ShxPiece.
mlir::LogicalResult addDeviceOptimizerKernel(mlir::ModuleOp device,
                                             llvm::StringRef name,
                                             const OptimizerTypes &types,
                                             DeviceLaunch &launch);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_GPU_LOWERDEVICEKERNELS_H
