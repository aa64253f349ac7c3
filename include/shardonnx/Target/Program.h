// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a planned program to its module of the LLVM dialect, with the manifest.

#ifndef SHARDONNX_TARGET_PROGRAM_H
#define SHARDONNX_TARGET_PROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Conversion/ExecToLLVM/DeviceProgram.h"
#include "shardonnx/Object/Object.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/ExternalFile.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include "llvm/Support/Error.h"

#include <string>

namespace shardonnx {

/// What a program is told beside its module (docs/manifest.md).
struct ProgramOptions {
  std::string name;
  std::string modelPath, modelSha256;
  ExternalFiles external; // of an executable
  TargetKind device = TargetKind::CPU;
  std::string arch;               // as in --arch
  TargetSpec target;              // of the host's code
  std::vector<std::string> chips; // of the kernels, cuda
  Strategy strategy = Strategy::FullShard;
  Optimizer optimizer = Optimizer::AdamW;
  UpdateTypes types;
};

/// The manifest of a module that exec-plan-memory has planned, as JSON.
std::string buildManifest(mlir::ModuleOp module, const ProgramOptions &options);

/// The same of a module that is only asked what it would take: its hash, which
/// ranks compare when they start, is empty.
std::string buildTrialManifest(mlir::ModuleOp module,
                               const ProgramOptions &options);

/// Lowers a planned module to the LLVM dialect, manifest included.
mlir::LogicalResult buildProgram(mlir::ModuleOp module,
                                 const ProgramOptions &options,
                                 const DeviceProgram *device = nullptr);

/// Lowers a planned @eval, which has no manifest, as linkLibrary() wants it.
mlir::LogicalResult buildEvalProgram(mlir::ModuleOp module,
                                     const TargetSpec &target);

/// Whether this build can make programs for GPUs.
bool hasCudaTarget();

/// `native` (this machine's GPU, sm_90 without one), or names such as
/// `sm_80,sm_90`. An unknown name is an error that lists those known.
llvm::Expected<std::vector<std::string>> resolveChips(llvm::StringRef arch);

/// Lowers the kernels of a planned module to the code of GPUs; they are in the
/// module no more.
llvm::Expected<DeviceProgram> buildDeviceProgram(mlir::ModuleOp module,
                                                 const ProgramOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_TARGET_PROGRAM_H
