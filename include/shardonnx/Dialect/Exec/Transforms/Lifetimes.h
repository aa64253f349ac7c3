// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When each buffer lives, read off the order of ops: for the planner before it
// chooses offsets, and for the verifier and the report after.

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_LIFETIMES_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_LIFETIMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/OffsetPlanner.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"

#include <vector>

namespace shardonnx::exec {

/// Kind of an exec.input that the program writes: what a function returns.
inline constexpr llvm::StringLiteral kOutputKind = "output";

/// The buffers of one space, `owners[i]` being the alloc or buffer or unit that
/// `items[i]` is the lifetime of. A planned owner's offset is filled in.
struct Lifetimes {
  std::vector<mlir::Operation *> owners;
  std::vector<PlanItem> items;
};

/// The functions of a step in the order in which they run.
llvm::SmallVector<mlir::func::FuncOp> stepFunctions(mlir::ModuleOp module);

/// One function's buffers in the private or the host space; times are positions
/// in its block, from 1.
Lifetimes bufferLifetimes(mlir::func::FuncOp function, Space space);

/// Gathered parameters, from a gather's start to its free, over all functions
/// of the step one after the other. A unit that is gathered when a function
/// begins or ends lives through every function that does not gather it.
Lifetimes paramLifetimes(mlir::ModuleOp module);

/// Gradients, from grad_acquire to reduce_wait; a reduction that is awaited in
/// another function lasts to the end of its own.
Lifetimes gradientLifetimes(mlir::ModuleOp module);

/// What of a unit's gradients lives in the private space until the end of
/// @update: on one rank all of them (kGradPlaceAttr), from grad_acquire; on
/// several the slice of their sum that a rank owns (kSlicePlaceAttr), from
/// reduce_start, as long as it is for two ranks. Replicated units have no
/// slice.
enum class PlacedGradients { Whole, Slice };
llvm::StringLiteral placeAttr(PlacedGradients placed);

/// The private space over a step of one microbatch: the buffers of
/// @first_microbatch and @update, then the units.
struct StepLifetimes : Lifetimes {
  size_t buffers = 0;
};
StepLifetimes privateLifetimesOfStep(mlir::ModuleOp module,
                                     PlacedGradients placed);

/// The op at a time of paramLifetimes or gradientLifetimes.
mlir::Operation *operationAt(mlir::ModuleOp module, int64_t time);

/// Bytes of a unit's gathered parameters (frozen ones after the trainable) and
/// of its full gradients.
int64_t paramBytes(fsdp::UnitOp unit);
int64_t gradientBytes(fsdp::UnitOp unit);
int64_t frozenOffsetBytes(fsdp::UnitOp unit);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_LIFETIMES_H
