// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a row kernel walks its row: reductions cut it into phases, each a loop
// over the row; a value that a later phase needs is kept in a buffer of one row
// or computed again, whichever is cheaper.

#ifndef SHARDONNX_CODEGEN_KERNEL_ROWPLAN_H
#define SHARDONNX_CODEGEN_KERNEL_ROWPLAN_H

#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::kernels {

/// What one loop over the row produces.
struct RowPhase {
  llvm::SmallVector<mlir::Operation *> uniformOps; // once, before the loop
  llvm::SmallVector<mlir::Operation *> reductions;
  llvm::SmallVector<mlir::Operation *> columnSums;  // over all rows
  llvm::SmallVector<mlir::Operation *> tensorSteps; // of all elements
  llvm::SmallVector<unsigned> outputs;              // vectors, in the loop
  llvm::SmallVector<unsigned> scalarOutputs; // one element, before the loop
  llvm::SmallVector<mlir::Value> kept;       // into row buffers
  unsigned cost = 0;                         // of one vector, instructions

  bool needsLoop() const {
    return !reductions.empty() || !outputs.empty() || !kept.empty();
  }
};

struct RowPlan {
  explicit RowPlan(const Kernel &kernel);

  /// How many reductions, one behind the other, a value waits for.
  unsigned levelOf(mlir::Value value) const { return levels.lookup(value); }

  std::vector<RowPhase> phases;
  llvm::SmallSetVector<mlir::Value, 4> kept;

private:
  void assignLevels();
  void assignRoots();
  void chooseKept();
  void visit(mlir::Value value, unsigned phase,
             llvm::DenseSet<mlir::Value> &seen);
  unsigned recomputeCost(mlir::Value value,
                         llvm::DenseSet<mlir::Value> &seen) const;

  const Kernel &kernel;
  llvm::DenseMap<mlir::Value, unsigned> levels;
};

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_ROWPLAN_H
