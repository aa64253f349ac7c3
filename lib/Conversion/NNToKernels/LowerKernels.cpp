// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec.kernel to llvm.func, as a function for the conversion of exec and as a
// pass to look at kernels alone.

#include "shardonnx/Conversion/NNToKernels/LowerKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Conversion/NNToKernels/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

namespace shardonnx {
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "shardonnx/Conversion/NNToKernels/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

KernelTarget kernels::kernelTargetOf(const TargetSpec &target) {
  KernelTarget result;
  result.lanes = target.lanes();
  result.registers = target.vectorBits == 512 ? 32 : 16;
  result.nativeBF16 = target.nativeBF16;
  return result;
}

FailureOr<Kernel> kernels::describeKernel(exec::KernelOp op) {
  SmallVector<MemRefType> types;
  for (Attribute type : op.getOperandTypes())
    types.push_back(cast<MemRefType>(cast<TypeAttr>(type).getValue()));
  return Kernel::get(op.getKind(), op.getDomain(), op.getBody().front(), types);
}

LogicalResult kernels::lowerKernels(ModuleOp module, const TargetSpec &target,
                                    llvm::StringMap<KernelLaunch> &launches) {
  module.getContext()
      ->loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                    LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                    vector::VectorDialect>();
  KernelTarget kernelTarget = kernelTargetOf(target);
  for (auto op : llvm::make_early_inc_range(module.getOps<exec::KernelOp>())) {
    FailureOr<Kernel> kernel = describeKernel(op);
    if (failed(kernel))
      return op.emitOpError("has operand types that do not fit its domain");
    launches[op.getSymName()] = kernel->getLaunch();
    OpBuilder builder(op);
    LLVM::LLVMFuncOp function = emitKernel(
        builder, op.getLoc(), op.getSymName(), *kernel, kernelTarget);
    op.erase();
    if (failed(lowerKernel(function)))
      return failure();
  }
  return success();
}

namespace {

struct LowerKernelsPass
    : shardonnx::impl::LowerKernelsPassBase<LowerKernelsPass> {
  using LowerKernelsPassBase::LowerKernelsPassBase;

  void runOnOperation() override {
    llvm::Expected<TargetSpec> target = resolveTarget(arch);
    if (!target) {
      getOperation().emitError(llvm::toString(target.takeError()));
      return signalPassFailure();
    }
    llvm::StringMap<KernelLaunch> launches;
    if (failed(lowerKernels(getOperation(), *target, launches)))
      signalPassFailure();
  }
};

} // namespace
