// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one cost model: parameters, bytes, FLOPs and collectives of a step, unit
// by unit, read from the fsdp level (before or after the schedule). Reports
// print it; nothing here depends on the number of ranks until it is asked.

#ifndef SHARDONNX_COST_COST_H
#define SHARDONNX_COST_COST_H

#include "shardonnx/Cost/Traffic.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace shardonnx {

struct UnitCost {
  std::string name;
  std::string layout;    // sharded | replicated
  int64_t trainable = 0; // elements, without padding
  int64_t frozen = 0;
  int64_t length = 0;        // elements of the trainable section, padded
  int64_t gatheredBytes = 0; // both sections, in param_dtype
  int64_t gradientBytes = 0; // in reduce_dtype
  int64_t forwardFlops = 0;  // model FLOPs of one microbatch (PaLM's rule)
  int64_t stepFlops = 0;     // of forward, backward and recomputation

  /// The unit's part of StepCost::modelFlops.
  int64_t modelFlops() const { return 3 * forwardFlops; }
};

struct StepCost {
  llvm::SmallVector<UnitCost> units;
  llvm::SmallVector<Collective> microbatch;     // in the order of their start
  llvm::SmallVector<Collective> nextMicrobatch; // behind the step's first
  llvm::SmallVector<Collective> update;
  llvm::SmallVector<Collective> evaluation;
  bool unshardedAccumulation = false;

  int64_t trainable() const;
  int64_t forwardFlops() const;
  /// Three times the forward: what tflops and mfu count.
  int64_t modelFlops() const { return 3 * forwardFlops(); }
};

/// The ranks and microbatches that a report counts the traffic of a step for.
struct StepShape {
  Topology ranks;
  int64_t microbatches = 1;
};

/// Reads the costs of a module that fsdp-shard has made.
StepCost estimateStep(mlir::ModuleOp module);

void print(const StepCost &cost, const StepShape &shape,
           llvm::raw_ostream &out);
llvm::json::Value toJSON(const StepCost &cost, const StepShape &shape);

} // namespace shardonnx

#endif // SHARDONNX_COST_COST_H
