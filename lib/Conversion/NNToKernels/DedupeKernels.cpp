// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-dedupe-kernels: code for each kernel once, however many layers run it.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Conversion/NNToKernels/Passes.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {
#define GEN_PASS_DEF_DEDUPEKERNELSPASS
#include "shardonnx/Conversion/NNToKernels/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

/// All that tells kernels apart, as text: everything but name and locations.
static std::string keyOf(exec::KernelOp kernel) {
  std::string key;
  llvm::raw_string_ostream stream(key);
  StringAttr name = kernel.getSymNameAttr();
  kernel.setSymName("");
  kernel->print(stream, OpPrintingFlags().useLocalScope().printGenericOpForm());
  kernel.setSymNameAttr(name);
  return key;
}

namespace {

struct DedupeKernelsPass
    : shardonnx::impl::DedupeKernelsPassBase<DedupeKernelsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<FlatSymbolRefAttr> first;
    llvm::DenseMap<StringAttr, FlatSymbolRefAttr> instead;
    for (auto kernel :
         llvm::make_early_inc_range(module.getOps<exec::KernelOp>())) {
      StringAttr name = kernel.getSymNameAttr();
      auto [it, isNew] =
          first.try_emplace(keyOf(kernel), FlatSymbolRefAttr::get(name));
      if (isNew)
        continue;
      instead[name] = it->second;
      kernel.erase();
    }
    module.walk([&](exec::LaunchOp launch) {
      auto it = instead.find(launch.getKernelAttr().getAttr());
      if (it != instead.end())
        launch.setKernelAttr(it->second);
    });
  }
};

} // namespace
