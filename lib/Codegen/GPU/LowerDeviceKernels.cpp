// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec.kernel and the optimizer to functions of a device module, and what the
// launches of a program tell of the addresses that they pass.

#include "shardonnx/Codegen/GPU/LowerDeviceKernels.h"
#include "DeviceEmitter.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/runtime/Layout.h"
#include <numeric>

namespace shardonnx {
#define GEN_PASS_DEF_LOWERDEVICEKERNELSPASS
#include "shardonnx/Codegen/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

/// What an operand's address is a multiple of, in bytes.
static unsigned alignmentOf(Value operand) {
  if (auto view = operand.getDefiningOp<exec::ViewOp>()) {
    Type element =
        cast<MemRefType>(view.getSource().getType()).getElementType();
    int64_t bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
    return std::gcd<uint64_t>(alignmentOf(view.getSource()),
                              view.getOffset() * bytes);
  }
  auto buffer = operand.getDefiningOp<exec::BufferOp>();
  if (!buffer)
    return kBufferAlignmentBytes;
  switch (buffer.getSpace()) {
  case exec::Space::private_:
  case exec::Space::params:
  case exec::Space::gradients:
  case exec::Space::host:
    return std::gcd<uint64_t>(kBufferAlignmentBytes, buffer.getOffset());
  case exec::Space::scalar:
    return sizeof(float);
  case exec::Space::input:
  case exec::Space::constant:
    return kBufferAlignmentBytes;
  }
  llvm_unreachable("all spaces handled");
}

/// The alignments of all operands of each kernel, over all its launches.
static llvm::StringMap<SmallVector<unsigned>>
collectAlignments(ModuleOp module) {
  llvm::StringMap<SmallVector<unsigned>> result;
  module.walk([&](exec::LaunchOp launch) {
    SmallVector<unsigned> &all = result[launch.getKernel()];
    all.resize(launch->getNumOperands(), kBufferAlignmentBytes);
    for (auto [alignment, operand] :
         llvm::zip_equal(all, launch->getOperands()))
      alignment = std::gcd(alignment, alignmentOf(operand));
  });
  return result;
}

LogicalResult kernels::lowerDeviceKernels(
    ModuleOp module, ModuleOp device, const DeviceTarget &target,
    llvm::StringMap<SmallVector<DeviceLaunch>> &launches) {
  if (nn::isStrict(module))
    device->setAttr(nn::kStrictAttr, UnitAttr::get(module.getContext()));
  llvm::StringMap<SmallVector<unsigned>> alignments = collectAlignments(module);
  OpBuilder builder = OpBuilder::atBlockEnd(device.getBody());
  for (auto op : llvm::make_early_inc_range(module.getOps<exec::KernelOp>())) {
    FailureOr<Kernel> kernel = describeKernel(op);
    if (failed(kernel))
      return op.emitOpError("has operand types that do not fit its domain");
    auto emitted =
        emitDeviceKernel(builder, op.getLoc(), op.getSymName(), *kernel, target,
                         alignments.lookup(op.getSymName()));
    if (failed(emitted))
      return op.emitOpError("cannot be emitted for a GPU");
    launches[op.getSymName()] = *emitted;
    op.erase();
  }
  return success();
}

LogicalResult kernels::addDeviceOptimizerKernel(ModuleOp device, StringRef name,
                                                const OptimizerTypes &types,
                                                DeviceLaunch &launch) {
  loadDeviceDialects(*device.getContext());
  FailureOr<OptimizerKernel> built =
      buildOptimizerKernel(device.getContext(), device.getLoc(), types);
  if (failed(built))
    return failure();
  OpBuilder builder = OpBuilder::atBlockEnd(device.getBody());
  DeviceAccess access(built->kernel, {});
  FailureOr<DeviceLaunch> emitted =
      emitDeviceCounted(builder, device.getLoc(), name, access, DeviceTarget());
  if (failed(emitted))
    return failure();
  launch = *emitted;
  return success();
}

namespace {

struct LowerDeviceKernelsPass
    : shardonnx::impl::LowerDeviceKernelsPassBase<LowerDeviceKernelsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registerDeviceDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto device = ModuleOp::create(builder, module.getLoc(), "device");
    llvm::StringMap<SmallVector<DeviceLaunch>> launches;
    if (failed(lowerDeviceKernels(module, device, DeviceTarget(), launches)))
      return signalPassFailure();
    // What launches kernels has nothing to call any more.
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (&op != device.getOperation())
        op.erase();
    for (const auto &kernel : launches)
      for (const DeviceLaunch &launch : kernel.second)
        device.lookupSymbol(launch.symbol)
            ->setAttr("exec.blocks", builder.getI64IntegerAttr(launch.blocks));
  }
};

} // namespace
