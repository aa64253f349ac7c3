// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From planned buffers and calls to the LLVM dialect.

#ifndef SHARDONNX_CONVERSION_EXECTOLLVM_PASSES
#define SHARDONNX_CONVERSION_EXECTOLLVM_PASSES

include "mlir/Pass/PassBase.td"

def ExecToLLVMPass : Pass<"exec-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Makes the program's functions: addresses, descriptors, calls of the runtime";
  let description = [{
    Each exec op becomes one call of the runtime's ABI on base pointers of the
    context plus fixed offsets; descriptors become constants. Kernels and the
    optimizer are emitted for the processor. Preserves numerics.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"native\"",
           "Processor, as in --arch">,
    Option<"optimizer", "optimizer", "::shardonnx::Optimizer",
           "::shardonnx::Optimizer::AdamW", "adamw, adam or sgd",
           "::shardonnx::SpelledValues<::shardonnx::Optimizer>()">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // SHARDONNX_CONVERSION_EXECTOLLVM_PASSES
