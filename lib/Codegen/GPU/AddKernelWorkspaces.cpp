// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-add-kernel-workspaces: memory for what a GPU kernel keeps between its
// stages, so that the memory plan knows of it.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Codegen/GPU/LowerDeviceKernels.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

namespace shardonnx {
#define GEN_PASS_DEF_ADDKERNELWORKSPACESPASS
#include "shardonnx/Codegen/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

namespace {

struct AddKernelWorkspacesPass
    : shardonnx::impl::AddKernelWorkspacesPassBase<AddKernelWorkspacesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<int64_t> bytes;
    for (auto op : module.getOps<exec::KernelOp>()) {
      FailureOr<kernels::Kernel> kernel = kernels::describeKernel(op);
      if (failed(kernel)) {
        op.emitOpError("has operand types that do not fit its domain");
        return signalPassFailure();
      }
      bytes[op.getSymName()] = kernels::deviceWorkspaceBytes(*kernel);
    }
    module.walk([&](exec::LaunchOp launch) {
      int64_t size = bytes.lookup(launch.getKernel());
      if (size == 0)
        return;
      OpBuilder builder(launch);
      auto type = MemRefType::get(size, builder.getI8Type());
      launch.getWorkspaceMutable().assign(
          exec::AllocOp::create(builder, launch.getLoc(), type));
    });
  }
};

} // namespace
