// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fsdp dialect: units of parameters, their collectives, and the update.

#ifndef SHARDONNX_DIALECT_FSDP_IR_FSDP_H
#define SHARDONNX_DIALECT_FSDP_IR_FSDP_H

#include "shardonnx/Dialect/NN/IR/NN.h"

#include "shardonnx/Dialect/FSDP/IR/FSDPOpsDialect.h.inc"
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsTypes.h.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOps.h.inc"

namespace shardonnx::fsdp {

/// The name of the root unit: what no other unit holds.
inline constexpr llvm::StringLiteral kRootUnit = "root";
/// The unit of parameters that --ignore names: every rank holds it whole.
inline constexpr llvm::StringLiteral kIgnoredUnit = "ignored";
/// Norms and biases of units whose matrices are gathered in 8 bits.
inline constexpr llvm::StringLiteral kSmallUnit = "vectors";

/// On the module: what backward computes again, a dictionary from units to
/// "block" (all but the unit's inputs), "selective" (all but the results of
/// library calls), or an i64 P (as selective, and library calls that cost less
/// than P FLOPs for each byte that need not be kept). Units that are not in it
/// only have elementwise values computed again.
inline constexpr llvm::StringLiteral kRecomputePlanAttr = "fsdp.recompute_plan";

/// On an fsdp.unit: model FLOPs of one microbatch, an i64.
inline constexpr llvm::StringLiteral kFlopsAttr = "fsdp.flops";

/// On the module, a unit attribute: gradients stay whole over the microbatches
/// of a step and are reduced once, behind the last of them.
inline constexpr llvm::StringLiteral kUnshardedAccumulationAttr =
    "fsdp.unsharded_accumulation";

/// The functions of a step (@microbatch until it is split in two).
inline constexpr llvm::StringLiteral kMicrobatch = "microbatch";
inline constexpr llvm::StringLiteral kFirstMicrobatch = "first_microbatch";
inline constexpr llvm::StringLiteral kNextMicrobatch = "next_microbatch";
inline constexpr llvm::StringLiteral kUpdate = "update";
inline constexpr llvm::StringLiteral kEval = "eval";

/// What a kernel that does nothing but add up its inputs, all of its result's
/// type and none read twice, adds up; empty for every other op.
llvm::SmallVector<mlir::Value> summandsOf(mlir::Operation *op);

/// The unit that a gathered value is of; null when no gather defines it.
mlir::FlatSymbolRefAttr getGatheredUnit(mlir::Value gathered);

} // namespace shardonnx::fsdp

#endif // SHARDONNX_DIALECT_FSDP_IR_FSDP_H
