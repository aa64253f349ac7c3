// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a planned program to a module of the LLVM dialect.

#ifndef SHARDONNX_CONVERSION_EXECTOLLVM_EXECTOLLVM_H
#define SHARDONNX_CONVERSION_EXECTOLLVM_EXECTOLLVM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Codegen/Kernel/OptimizerKernel.h"
#include "shardonnx/Object/Object.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include <string>
#include <vector>

namespace shardonnx {

#define GEN_PASS_DECL
#include "shardonnx/Conversion/ExecToLLVM/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Conversion/ExecToLLVM/Passes.h.inc"

struct DeviceProgram;

/// A kernel of the optimizer, of units with parameters of this type, and the
/// types that the module's units have.
std::string optimizerKernelName(
    ShxDType paramType,
    kernels::OptimizerPart part = kernels::OptimizerPart::Elements);
std::vector<ShxDType> paramTypesOf(mlir::ModuleOp module);
/// What the optimizer's kernel for units of such parameters reads and writes.
UpdateTypes kernelTypesOf(mlir::ModuleOp module, ShxDType param,
                          UpdateTypes types);
/// The same of a program for GPUs, whose masters may lie in halves.
kernels::OptimizerTypes
deviceOptimizerTypes(mlir::ModuleOp module, Optimizer optimizer, ShxDType param,
                     const UpdateTypes &types, kernels::OptimizerPart part);
/// What of the optimizer the module's units need.
llvm::SmallVector<kernels::OptimizerPart>
optimizerPartsOf(mlir::ModuleOp module);

struct LoweringOptions {
  TargetSpec target;
  /// None: the program has no update.
  std::optional<Optimizer> optimizer;
  UpdateTypes types;
  /// Goes into the section `.shardonnx` as shx_manifest.
  std::string manifest;
  /// The kernels, where a GPU runs them; they are no longer in the module.
  const DeviceProgram *device = nullptr;
};

/// Replaces everything in the module by the functions of the ABI that
/// generated code exports (shx_first_microbatch, …), the kernels, and the
/// constants that they need.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module,
                                const LoweringOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_CONVERSION_EXECTOLLVM_EXECTOLLVM_H
