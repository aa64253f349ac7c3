// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which ops of a block may become one kernel: groups, their iteration spaces,
// and the dependences that a merge must not turn into a cycle.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSIONGRAPH_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSIONGRAPH_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/ADT/SmallBitVector.h"

namespace shardonnx::fusion {

using Shape = llvm::SmallVector<int64_t, 4>;

/// The iteration space of rows: rows = product of the axes in front of the
/// last, `length` = the last (1 where only per-row scalars are computed).
struct RowSpace {
  int64_t rows = 1;
  int64_t length = 1;
};

/// The shape whose elements an op runs over: its operand's for a reduction.
llvm::ArrayRef<int64_t> domainOf(mlir::Operation *op);
RowSpace rowSpaceOf(llvm::ArrayRef<int64_t> domain);

/// A reshape that splits or merges only axes in front of the last.
bool isRowReshape(mlir::Operation *op);
/// A sum over all axes but the last.
bool isColumnSum(mlir::Operation *op);
/// An op that a row group may hold as a member.
bool isRowOp(mlir::Operation *op);
/// A row op that a group computes for itself: a constant, an iota, a
/// broadcast, or arithmetic on one row.
bool isCheap(mlir::Operation *op);

/// Does the op read a parameter, or what is cheaply computed from some?
bool readsParameters(mlir::Operation *op);

/// An op whose place among others like it must not change.
bool keepsOrder(mlir::Operation *op);
/// The ops that read an operand which `op` ends the life of (fsdp.free), or a
/// view of it.
llvm::SmallVector<mlir::Operation *> readersBeforeEnd(mlir::Operation *op);

/// The common refinement of the shapes' axes in front of the last, with
/// `length` behind them, or failure.
llvm::FailureOr<Shape>
refineDomains(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes, int64_t length);

/// The shape of a value that an op over `from` sees, seen from `to`, a
/// refinement of `from`; failure where an axis does not map.
llvm::FailureOr<Shape> convertShape(llvm::ArrayRef<int64_t> shape,
                                    llvm::ArrayRef<int64_t> from,
                                    llvm::ArrayRef<int64_t> to);
/// The axis of `to` that an axis of `from` is; none if it is split or unit.
std::optional<int64_t> convertAxis(int64_t axis, llvm::ArrayRef<int64_t> from,
                                   llvm::ArrayRef<int64_t> to);
/// Can a kernel over `domain` compute the op, from operands seen from there?
bool runsOver(mlir::Operation *op, llvm::ArrayRef<int64_t> domain);

/// A set of ops that becomes one kernel.
struct Group {
  llvm::SmallVector<unsigned> members; // positions in the block, ascending
  RowSpace space;
  Shape domain;
  mlir::Attribute unit; // of its members, of those that read parameters first
  bool readsParameters = false;
  bool backward = false;
  bool reduces = false;       // sums of rows or of columns, largest values
  bool writesColumns = false; // what is stored transposed
};

class FusionGraph {
public:
  explicit FusionGraph(mlir::Block &block);

  /// Forms all row groups.
  void formGroups();

  mlir::Operation *at(unsigned position) const { return ops[position]; }
  unsigned size() const { return ops.size(); }
  unsigned positionOf(mlir::Operation *op) const {
    return positions.lookup(op);
  }
  bool contains(mlir::Operation *op) const { return positions.contains(op); }
  /// The group of an op, or none.
  std::optional<unsigned> groupOf(mlir::Operation *op) const;
  const Group &group(unsigned id) const { return groups[id]; }
  unsigned groupCount() const { return groups.size(); }
  llvm::SmallVector<unsigned> liveGroups() const;
  /// Does `b` depend on `a`, or `a` on `b`, by way of other ops?
  bool depend(mlir::Operation *a, mlir::Operation *b) const;
  /// Of the parts that the block is cut into (one number a position), the
  /// smallest of several ops that waits for itself; none if every part can
  /// run at once. Merging looks no further than a group's last op, so that it
  /// misses ways that lead on and back.
  std::optional<unsigned> partOnCycle(llvm::ArrayRef<unsigned> parts) const;
  /// Makes every member of a group a group of its own again, but sums of
  /// columns, which are in none then.
  void dissolve(unsigned id);
  /// Makes a sum of columns a member of a group over its rows, if it can be.
  bool joinSum(mlir::Operation *sum, unsigned id);

private:
  void addOrderEdges();
  void makeSingleton(unsigned position);
  void makeSingletons();
  void mergeWithProducers();
  void mergeReadersOfSameTensors();
  bool tryMerge(unsigned a, unsigned b);
  bool agree(const Group &a, const Group &b) const;
  bool waitsForStep(unsigned reader, unsigned maker) const;
  bool pathOutside(unsigned from, unsigned to) const;
  unsigned nodeOf(unsigned position) const;
  unsigned firstOf(unsigned node) const { return nodeMembers(node).front(); }
  unsigned lastOf(unsigned node) const { return nodeMembers(node).back(); }
  llvm::ArrayRef<unsigned> nodeMembers(unsigned node) const;
  void noteSpan(const Group &group);
  unsigned horizonOf(unsigned position) const;

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  std::vector<llvm::SmallVector<unsigned>> successors;
  std::vector<Group> groups;
  /// What reads no parameters joins a neighbour of another unit, once those of
  /// its own have been joined: a residual sum the norm behind it.
  bool acrossUnits = false;
  llvm::SmallVector<int> groupIds;      // by position, -1: none
  llvm::SmallVector<unsigned> identity; // positions, for singleton nodes
  /// A Fenwick tree: how far the groups reach that begin up to a position.
  llvm::SmallVector<unsigned> spans;
};

} // namespace shardonnx::fusion

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSIONGRAPH_H
