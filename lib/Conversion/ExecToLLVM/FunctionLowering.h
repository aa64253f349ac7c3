// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers one function of a step, op by op.

#ifndef SHARDONNX_LIB_CONVERSION_EXECTOLLVM_FUNCTIONLOWERING_H
#define SHARDONNX_LIB_CONVERSION_EXECTOLLVM_FUNCTIONLOWERING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/Conversion/ExecToLLVM/DeviceProgram.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

#include <map>

namespace shardonnx {

/// What the functions of a program share: declarations, constants, units.
class ProgramSymbols {
public:
  explicit ProgramSymbols(mlir::ModuleOp module);

  /// Bytes in read-only memory, equal ones once.
  mlir::LLVM::GlobalOp bytes(llvm::StringRef content, llvm::StringRef name,
                             unsigned alignment);
  /// A function of the runtime.
  mlir::LLVM::LLVMFuncOp declare(llvm::StringRef name,
                                 mlir::LLVM::LLVMFunctionType type);
  /// The unit's index in ShxContext::params.
  int64_t unitIndex(mlir::FlatSymbolRefAttr unit) const {
    return units.lookup(unit.getAttr());
  }
  /// What the unit's products read.
  ShxDType paramType(mlir::FlatSymbolRefAttr unit) const {
    return paramTypes.lookup(unit.getAttr());
  }
  /// The global that holds an exec.constant.
  mlir::LLVM::GlobalOp constant(mlir::FlatSymbolRefAttr name);

  llvm::StringMap<kernels::KernelLaunch> launches; // by kernel

  /// Set for a program whose kernels run on a GPU.
  const DeviceProgram *device = nullptr;
  /// The ShxDeviceKernel of a launch.
  mlir::LLVM::GlobalOp deviceKernel(const kernels::DeviceLaunch &launch);
  /// Where an exec.constant lies in shx_constants.
  int64_t constantOffset(mlir::FlatSymbolRefAttr name);
  /// Adds what a GPU program exports; after all functions are lowered.
  void addDeviceSymbols();

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  std::map<std::string, mlir::LLVM::GlobalOp, std::less<>> globals;
  llvm::StringMap<mlir::LLVM::LLVMFuncOp> functions;
  llvm::DenseMap<mlir::StringAttr, int64_t> units;
  llvm::DenseMap<mlir::StringAttr, ShxDType> paramTypes; // of units
  llvm::DenseMap<mlir::StringAttr, exec::ConstantOp> constants;
  llvm::StringMap<mlir::LLVM::GlobalOp> deviceKernels;
  llvm::DenseMap<mlir::StringAttr, int64_t> constantOffsets;
  std::string constantBytes; // of a GPU program
};

/// The elements as they lie in memory; an i1 is a byte.
std::string bytesOf(mlir::ElementsAttr value);

/// Makes `void NAME(ShxContext *)` of a function of exec ops.
mlir::LogicalResult lowerFunction(mlir::func::FuncOp function,
                                  llvm::StringRef name,
                                  ProgramSymbols &symbols);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_EXECTOLLVM_FUNCTIONLOWERING_H
