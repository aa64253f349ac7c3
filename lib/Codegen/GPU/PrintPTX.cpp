// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-print-ptx: to look at the code of GPU kernels.

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Object/DeviceImages.h"
#include "llvm/Support/raw_ostream.h"

namespace shardonnx {
#define GEN_PASS_DEF_PRINTPTXPASS
#include "shardonnx/Codegen/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

namespace {

struct PrintPTXPass : shardonnx::impl::PrintPTXPassBase<PrintPTXPass> {
  using PrintPTXPassBase::PrintPTXPassBase;

  llvm::Expected<std::string> textOf(ModuleOp device) {
    if (!report)
      return emitPTX(device, chip);
    auto images = emitDeviceImages(device, {chip});
    if (!images)
      return images.takeError();
    return images->report;
  }

  void runOnOperation() override {
    auto device = getOperation().lookupSymbol<ModuleOp>("device");
    if (!device) {
      getOperation().emitError("has no module @device: run "
                               "exec-lower-device-kernels first");
      return signalPassFailure();
    }
    auto text = textOf(device);
    if (!text) {
      getOperation().emitError(llvm::toString(text.takeError()));
      return signalPassFailure();
    }
    llvm::outs() << *text;
    markAllAnalysesPreserved();
  }
};

} // namespace
