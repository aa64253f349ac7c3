// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest must be written before lowering takes away what it tells.

#include "shardonnx/Target/Program.h"
#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace shardonnx;

// The runtime keeps one dtype for all gathered units, one for all gradients.
static LogicalResult verifyDtypes(ModuleOp module) {
  fsdp::UnitOp first;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    if (!first)
      first = unit;
    if (unit.getParamDtype() != first.getParamDtype() ||
        unit.getReduceDtype() != first.getReduceDtype())
      return unit.emitOpError("differs in its dtypes from @")
             << first.getSymName() << ", which the runtime does not support";
  }
  return success();
}

LogicalResult shardonnx::buildProgram(ModuleOp module,
                                      const ProgramOptions &options,
                                      const DeviceProgram *device) {
  if (failed(verifyDtypes(module)))
    return failure();
  LoweringOptions lowering;
  lowering.target = options.target;
  lowering.optimizer = options.optimizer;
  lowering.manifest = buildManifest(module, options);
  lowering.device = device;
  return lowerToLLVM(module, lowering);
}
