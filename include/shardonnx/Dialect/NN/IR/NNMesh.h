// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect's ops between ranks, apart from NN.h so that most files need
// not be compiled with them; and what modules and parameters say of the mesh.

#ifndef SHARDONNX_DIALECT_NN_IR_NNMESH_H
#define SHARDONNX_DIALECT_NN_IR_NNMESH_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/Sharding.h"
#include "shardonnx/runtime/Mesh.h"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNMeshOps.h.inc"

namespace shardonnx::nn {

/// Of the module: the ranks of each axis that was named, by its name, i64s.
inline constexpr llvm::StringLiteral kMeshAttr = "nn.mesh";
/// The module's; that of one rank where it has none.
Mesh meshOf(mlir::Operation *op);
void setMesh(mlir::Operation *module, const Mesh &mesh);

/// Of a parameter whose type is a rank's part: `axis`, `dim` and `sections` of
/// the whole one.
inline constexpr llvm::StringLiteral kSplitAttr = "nn.split";
std::optional<Split> splitOf(ParameterOp parameter);
void setSplit(ParameterOp parameter, MeshAxis axis, const Sharding &sharding);

/// The number of ranks nearest to `parts` that divides `count`.
int64_t nearestDivisor(int64_t count, int64_t parts);

/// Which chunks of causal keys in a zigzag are seen at the steps of a ring: of
/// the rank `behind`, by any rank's queries within the window.
struct RingReach {
  int64_t parts, chunk, window; // 0: all

  bool lateSeeEarly(int64_t behind) const {
    return sees(std::min(behind + 1, parts + 1 - behind));
  }
  bool earlySeeEarly(int64_t behind) const { return sees(behind); }
  bool lateSeeLate(int64_t behind) const { return sees(parts - behind); }
  /// How many a rank sends of its own; without a window 2·(parts - 1).
  int64_t chunksSent() const;

private:
  /// Of keys so many chunks before a query's.
  bool sees(int64_t chunks) const {
    return window == 0 || (chunks - 1) * chunk + 1 < window;
  }
};

/// Whether all ranks of an axis meet in the op.
bool isCollective(mlir::Operation *op);

/// The axis of an op between ranks is the module's, where the module has a
/// mesh.
llvm::LogicalResult verifyAxis(mlir::Operation *op, llvm::StringRef axis,
                               int64_t parts);
template <typename Op> llvm::LogicalResult verifyAxis(Op op) {
  return verifyAxis(op, op.getAxis(), op.getParts());
}

/// Registers the group with the dialect.
void registerMeshOps(NNDialect &dialect);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNMESH_H
