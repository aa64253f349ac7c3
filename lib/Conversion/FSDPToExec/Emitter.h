// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the exec ops of one function, following its placement.

#ifndef SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H
#define SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H

#include "KernelCache.h"
#include "Placement.h"
#include "shardonnx/Dialect/NN/IR/Ids.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"

namespace shardonnx {

/// What the functions of a step say about the graph's inputs.
struct InputUse {
  /// What reads all of the input wants ids below this; 0: nothing does.
  int64_t wholeLimit = 0;
  /// The largest of what reads parts of it, such as columns of categories: a
  /// smaller one is checked where the ids are looked up.
  int64_t partLimit = 0;
  bool tokens = false;
  /// Of labels: the one that counts in no loss.
  std::optional<int64_t> ignored;
  /// The graph leaves out the first label of each sample: it shifts them.
  bool shifted = false;

  /// Ids are below this; 0: not ids.
  int64_t limit() const { return wholeLimit ? wholeLimit : partLimit; }
  void add(const nn::IdUse &use);
};

class Emitter : public exec::CallEmitter {
public:
  Emitter(mlir::func::FuncOp function, const ParameterPlaces &parameters,
          KernelCache &kernels, const exec::CallOptions &calls,
          llvm::MutableArrayRef<InputUse> inputs);

  /// Replaces the function by one without arguments that holds exec ops.
  mlir::LogicalResult run();

  exec::Storage storageOf(mlir::Value operand) override {
    return storages.lookup(operand);
  }
  exec::Storage contiguous(mlir::Value operand) override;
  exec::Storage resultStorage(mlir::Value result) override;
  bool accumulates(mlir::Value result) override {
    return placement.adds(result);
  }
  void useIds(mlir::Value ids, int64_t limit,
              std::optional<int64_t> ignored) override;
  mlir::Value bufferOf(const exec::Storage &storage) override;
  exec::Storage copyOf(const exec::Storage &source) override;

private:
  void clearSteps();
  mlir::LogicalResult emit(mlir::Operation &op);
  void emitView(mlir::Operation &op);
  mlir::LogicalResult emitUnitOp(mlir::Operation &op);
  bool emitLeaf(mlir::Operation &op);
  void emit(nn::FusedOp op);
  void emit(nn::LossOp op);
  void emit(fsdp::ReduceStartOp op);
  void emit(fsdp::ViewOp op);
  void emit(mlir::func::ReturnOp op);
  void addConstant(mlir::Value value, mlir::ElementsAttr bytes);
  void addScalar(mlir::Value value, int64_t place);

  // EmitCopies.cpp
  std::optional<exec::Storage> joinInPlace(nn::ConcatOp op);
  void emit(nn::ConcatOp op);
  void emit(nn::PadOp op);
  void emit(nn::WindowsOp op);
  void emit(nn::OverlapAddOp op);
  void copyUnlessThere(const exec::Storage &source, const exec::Storage &target,
                       bool accumulate = false);

  mlir::func::FuncOp function;
  const ParameterPlaces &parameters;
  KernelCache &kernels;
  llvm::MutableArrayRef<InputUse> inputs;
  Placement placement;
  llvm::DenseMap<mlir::Value, exec::Storage> storages, copies;
  llvm::DenseMap<mlir::Attribute, exec::Root *> parameterRoots;
  std::map<std::pair<exec::Root *, size_t>, exec::Root *> joinedRoots;
  std::map<std::tuple<exec::Root *, int64_t, const void *>, mlir::Value> views;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H
