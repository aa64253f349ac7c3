// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What several passes ask of a step: where backward begins, which unit an op
// belongs to, which values are functions of parameters alone.

#ifndef SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_STEP_H
#define SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_STEP_H

#include "shardonnx/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace shardonnx::fsdp {

/// The positions of a function's ops at the time of construction, and the
/// first position of backward: the first tensor through which a gradient flows.
/// Without one (evaluation), backward begins at the end.
class StepOrder {
public:
  explicit StepOrder(mlir::func::FuncOp function);

  unsigned position(mlir::Operation *op) const;
  mlir::Operation *at(unsigned position) const { return ops[position]; }
  unsigned backwardStart() const { return backward; }
  bool inBackward(mlir::Operation *op) const {
    return position(op) >= backward;
  }

private:
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  unsigned backward = 0;
};

/// The functions of the module that have a body, in order.
llvm::SmallVector<mlir::func::FuncOp> stepFunctions(mlir::ModuleOp module);

/// The unit of every parameter that a unit holds.
llvm::DenseMap<mlir::StringAttr, UnitOp>
unitsByParameter(mlir::ModuleOp module);

/// Whether the result of `op` may lie in the memory of its operand: strides
/// into it, no copy.
bool isAlias(mlir::Operation *op);

/// Whether the value ends, unread by anything else, as a parameter's gradient.
bool becomesGradient(mlir::Value value);

/// The last op that reads `value` or an alias of it; null when nothing does.
mlir::Operation *lastUser(mlir::Value value, const StepOrder &order);

/// The first op that may write into the memory of `gradient`, which `reduction`
/// reads: its maker, or what that reshapes, transposes or adds up.
mlir::Operation *firstWriter(mlir::Value gradient, mlir::Operation *reduction);

/// Whether `op` of the update writes what gathers of the unit read; the last of
/// them has written all.
bool writes(mlir::Operation *op, UnitOp unit);

/// The wider of two float types: f32 before bf16 and f16, whose union is f32.
mlir::Type widerFloat(mlir::Type a, mlir::Type b);

} // namespace shardonnx::fsdp

#endif // SHARDONNX_LIB_DIALECT_FSDP_TRANSFORMS_STEP_H
