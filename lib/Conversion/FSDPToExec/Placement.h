// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the values of one function lie. Decided before anything is emitted,
// from the last op to the first: what is joined by a concat or handed over as a
// gradient is written there by its producer, if the producer can.

#ifndef SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_PLACEMENT_H
#define SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_PLACEMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/Exec/IR/LibraryCall.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/DenseSet.h"

#include <deque>

namespace shardonnx {

/// Where a parameter lies in its unit's buffers.
struct ParameterPlace {
  fsdp::UnitOp unit;
  int64_t offset = 0; // elements from the begin of the unit, frozen ones behind
  bool frozen = false;
};
using ParameterPlaces = llvm::DenseMap<mlir::StringAttr, ParameterPlace>;

ParameterPlaces placeParameters(mlir::ModuleOp module);

class Placement {
public:
  /// With `splitSums` what adds up to a gradient is added to it one by one,
  /// with `addsProducts` a product to the matrix that it is summed with.
  Placement(mlir::func::FuncOp function, const ParameterPlaces &parameters,
            bool splitSums, bool addsProducts);

  /// Decides for every concat, every reduction and every product with a sum of
  /// the function.
  mlir::LogicalResult run();

  /// Where a value was placed, or null.
  const exec::Storage *find(mlir::Value value) const;
  void put(mlir::Value value, const exec::Storage &storage) {
    placed[value] = storage;
  }
  /// Whether the value is added to what lies in its place.
  bool adds(mlir::Value value) const { return added.contains(value); }
  /// Whether the value is there once its summands are: its op does nothing.
  bool isSum(mlir::Value value) const { return sums.contains(value); }
  /// A new row-major private root of the value's shape.
  exec::Storage allocate(mlir::Value value);
  exec::Root *newRoot(exec::Root root);

  /// Where the i-th input of a concat belongs in its result.
  exec::Storage partOf(mlir::Operation *concat, unsigned input);
  /// Where the i-th value that the function returns belongs: behind its inputs.
  exec::Storage outputOf(mlir::func::ReturnOp end, unsigned index);
  /// Where the i-th gradient of a reduction belongs.
  exec::Storage gradientOf(fsdp::ReduceStartOp reduce, unsigned index);

private:
  /// Positions between which a storage may hold a value.
  struct Window {
    unsigned begin = 0, end = UINT_MAX;
  };
  /// A value that can be written into a storage, or added to it.
  struct Target {
    mlir::Value value;
    exec::Storage storage;
  };
  std::optional<Target> resolve(mlir::Value value, const exec::Storage &storage,
                                Window window, bool add) const;
  bool place(mlir::Value value, const exec::Storage &storage, Window window,
             bool add);
  bool placeSum(mlir::Value sum, const exec::Storage &storage, Window window,
                bool add);
  mlir::LogicalResult placeGradients(fsdp::ReduceStartOp reduce);
  exec::Storage newGradient(fsdp::ReduceStartOp reduce, unsigned index,
                            llvm::ArrayRef<int64_t> shape);
  /// Where the kernel that makes the parts of a concat may write them over what
  /// it reads.
  std::optional<exec::Storage> overwritten(nn::ConcatOp concat);
  std::optional<exec::Storage> storageOfPart(mlir::Value value);
  void placeProduct(nn::MatmulEpilogueOp product);
  unsigned placeJoined(fsdp::ReduceStartOp reduce, unsigned index,
                       Window window);
  unsigned position(mlir::Operation *op) const { return positions.lookup(op); }
  unsigned lastUse(mlir::Value value) const;

  mlir::func::FuncOp function;
  const ParameterPlaces &parameters;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
  bool splitSums, addsProducts;
  llvm::DenseMap<mlir::Value, exec::Storage> placed;
  llvm::DenseSet<mlir::Value> added, sums;
  llvm::DenseMap<mlir::Value, Window> windows;
  llvm::DenseMap<mlir::Attribute, exec::Storage> gradients; // by parameter
  llvm::SmallVector<exec::Root *> outputRoots;
  llvm::DenseMap<mlir::Attribute, llvm::SmallVector<unsigned>> acquires;
  std::deque<exec::Root> roots;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_PLACEMENT_H
