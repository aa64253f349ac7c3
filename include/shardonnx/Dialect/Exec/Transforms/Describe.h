// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What people want to see of a planned program: its spaces and what lives at
// their peaks, and the order of its collectives. `--emit=memory` prints the
// first, the manifest carries both (docs/manifest.md).

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_DESCRIBE_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_DESCRIBE_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/Launches.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace shardonnx::exec {

struct LiveBuffer {
  std::string name;
  int64_t bytes = 0, offset = 0;
};

struct SpaceReport {
  Space space;
  int64_t bytes = 0, lowerBound = 0;
  std::string peakAt;           // the function and the op that runs there
  std::vector<LiveBuffer> live; // at the peak, the largest first
};

/// What an op computes and moves: FLOPs of matrix products and attention as
/// they are executed (causal discounted), bytes of the buffers it names.
struct Work {
  double flops = 0, bytes = 0;
};
Work workOf(mlir::Operation *op);

/// The name of a unit, or the ONNX node that a buffer comes from and its type.
std::string nameOf(mlir::Operation *owner);

/// The manifest's "ops" and "buffers" of a function, all of whose launches are
/// in the table: what runs, in order, and between which of these each private
/// buffer lives.
void addTimeline(mlir::func::FuncOp function, const LaunchTable &launches,
                 llvm::json::Object &described);

/// The spaces of a module that exec-plan-memory has planned.
std::vector<SpaceReport> describeSpaces(mlir::ModuleOp module);

/// The manifest's "spaces".
llvm::json::Object spacesToJson(mlir::ModuleOp module);

/// The manifest's "functions": collectives in the order of issue, units by
/// their position among the module's fsdp.units, with the work before each; and
/// with a table for them, the launches of each.
llvm::json::Array functionsToJson(mlir::ModuleOp module,
                                  LaunchTable *launches = nullptr);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_DESCRIBE_H
