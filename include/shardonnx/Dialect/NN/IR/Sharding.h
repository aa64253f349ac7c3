// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a value lies on an axis of the mesh, and what an op says of it.

#ifndef SHARDONNX_DIALECT_NN_IR_SHARDING_H
#define SHARDONNX_DIALECT_NN_IR_SHARDING_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace shardonnx::nn {

/// Whole on every rank of the axis, or split along one dimension as Split of
/// runtime/Mesh.h has it: each of the `sections` of the dimension evenly.
struct Sharding {
  int64_t dim = -1; // -1: whole
  llvm::SmallVector<int64_t, 1> sections;
  /// Every second section has its parts from the last rank to the first: of
  /// two, a rank has an early chunk and the late one opposite to it.
  bool zigzag = false;

  static Sharding whole() { return {}; }
  static Sharding split(int64_t dim, int64_t size) { return {dim, {size}}; }
  bool isWhole() const { return dim < 0; }
  bool operator==(const Sharding &other) const {
    return dim == other.dim && sections == other.sections &&
           zigzag == other.zigzag;
  }
  bool operator!=(const Sharding &other) const { return !(*this == other); }
  /// The same along another dimension.
  Sharding along(int64_t other) const { return {other, sections, zigzag}; }
  /// Of the whole dimension.
  int64_t size() const;
  /// The type of a rank's part.
  mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                   int64_t parts) const;
};

/// A question to an op, and its answer.
class ShardingQuery {
public:
  ShardingQuery(mlir::Operation *op, llvm::ArrayRef<Sharding> operands,
                int64_t parts);

  const int64_t parts; // ranks of the axis
  const llvm::SmallVector<Sharding> operands;

  // The answer: as long as an op says nothing, all is whole.
  llvm::SmallVector<Sharding> needed;  // [operand]
  llvm::SmallVector<Sharding> results; // [result]
  /// How the op itself leaves a result that is then to lie as `results` says;
  /// whole: just so.
  llvm::SmallVector<Sharding> made; // [result]
  /// Each rank's result is a summand of the op's.
  bool sums = false;

  /// The operand that is split, or the first of several.
  unsigned splitOperand() const;
  llvm::LogicalResult refuse(llvm::StringRef why);
  llvm::StringRef getReason() const { return reason; }
  /// Refuses as long as the operand's dimension is not split in sections that
  /// end at these indices.
  llvm::LogicalResult refine(unsigned operand, llvm::ArrayRef<int64_t> ends);
  /// What was asked for, as fractions of the dimension; empty: nothing.
  llvm::ArrayRef<double> getFractions() const { return fractions; }

private:
  std::string reason;
  llvm::SmallVector<double> fractions;
};

/// How a tensor lies under another shape of the same elements, or nothing where
/// its part is no part of that.
std::optional<Sharding> reshaped(llvm::ArrayRef<int64_t> from,
                                 llvm::ArrayRef<int64_t> to,
                                 const Sharding &sharding, int64_t parts);

} // namespace shardonnx::nn

#include "shardonnx/Dialect/NN/IR/ShardableOpInterface.h.inc"

#endif // SHARDONNX_DIALECT_NN_IR_SHARDING_H
