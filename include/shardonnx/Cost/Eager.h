// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a framework that fuses nothing moves through memory for a graph of nn
// ops: every op reads its operands and writes its result.

#ifndef SHARDONNX_COST_EAGER_H
#define SHARDONNX_COST_EAGER_H

#include "shardonnx/Cost/Execution.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

struct EagerGraph {
  llvm::StringMap<EagerTraffic::Unit> units;
  double logits = 0;
};

/// Of @forward of a module of Level::NN.
EagerGraph countEager(mlir::ModuleOp module);

} // namespace shardonnx

#endif // SHARDONNX_COST_EAGER_H
