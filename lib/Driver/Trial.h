// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Choices that a budget decides are tried on a copy of the module, with the
// passes and the planner that the program itself goes through: what a budget
// promises is what the plan will hold.

#ifndef SHARDONNX_LIB_DRIVER_TRIAL_H
#define SHARDONNX_LIB_DRIVER_TRIAL_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/Diagnostics.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace shardonnx {

/// A copy of `module`, which is of the level before `first`, taken to
/// Level::Memory; null when a pass fails. What passes have to say is not
/// printed: they say it again on the module itself.
mlir::OwningOpRef<mlir::ModuleOp> planCopy(mlir::ModuleOp module, Level first,
                                           const CompileOptions &options);

/// `--recompute=budget:BYTES`, on a module of Level::NN: finds the cheapest
/// recomputation with which the private space has at most that many bytes, and
/// writes it down as the module's fsdp.recompute_plan.
mlir::LogicalResult fitRecompute(mlir::ModuleOp module,
                                 const CompileOptions &options,
                                 Diagnostics &diagnostics);

/// `--memory-budget`, on a module of Level::Grad: decides which units are
/// merged, which are kept and how early gathers start, so that the planned
/// memory of a rank of --world-size has at most that many bytes, and writes it
/// down as attributes of the module. `manifestOf` tells of a planned module.
mlir::LogicalResult
fitMemory(mlir::ModuleOp module, const CompileOptions &options,
          llvm::function_ref<std::string(mlir::ModuleOp)> manifestOf,
          Diagnostics &diagnostics);

/// As many threads as a rank would take on this machine.
int threadsPerRank(int64_t ranks);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_TRIAL_H
