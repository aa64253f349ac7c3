// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest must be written before lowering takes away what it tells.

#include "shardonnx/Target/Program.h"
#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"

using namespace mlir;
using namespace shardonnx;

LogicalResult shardonnx::buildProgram(ModuleOp module,
                                      const ProgramOptions &options,
                                      const DeviceProgram *device) {
  LoweringOptions lowering;
  lowering.target = options.target;
  lowering.optimizer = options.optimizer;
  lowering.types = options.types;
  lowering.manifest = buildManifest(module, options);
  lowering.device = device;
  return lowerToLLVM(module, lowering);
}

LogicalResult shardonnx::buildEvalProgram(ModuleOp module,
                                          const TargetSpec &target) {
  LoweringOptions lowering;
  lowering.target = target;
  lowering.manifest = "{}";
  return lowerToLLVM(module, lowering);
}
