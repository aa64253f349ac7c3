// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits the exec ops of one function, following its placement.

#ifndef SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H
#define SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H

#include "KernelCache.h"
#include "Placement.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/runtime/Workspace.h"

namespace shardonnx {

/// What the functions of a step say about the graph's inputs.
struct InputUse {
  /// Ids are below this; 0: not ids.
  int64_t limit = 0;
  bool tokens = false, labels = false;
};

/// The device's library calls, and what is asked of them.
struct CallOptions {
  const LibraryModel &libraries;
  bool tf32 = false, deterministic = false;
};

class Emitter {
public:
  Emitter(mlir::func::FuncOp function, const ParameterPlaces &parameters,
          KernelCache &kernels, const CallOptions &calls,
          llvm::MutableArrayRef<InputUse> inputs);

  /// Replaces the function by one without arguments that holds exec ops.
  mlir::LogicalResult run();

private:
  mlir::LogicalResult emit(mlir::Operation &op);
  mlir::LogicalResult emitView(mlir::Operation &op);
  mlir::LogicalResult emitUnitOp(mlir::Operation &op);
  bool emitLeaf(mlir::Operation &op);

  // EmitCalls.cpp
  bool emitCall(mlir::Operation &op);
  void emit(nn::FusedOp op);
  void emit(nn::MatmulOp op);
  void emit(nn::MatmulEpilogueOp op);
  void emit(nn::AttentionOp op);
  void emit(nn::AttentionGradOp op);
  void emit(nn::EmbeddingOp op);
  void emit(nn::EmbeddingGradOp op);
  void emit(nn::CrossEntropyOp op);
  void emit(nn::CrossEntropyGradOp op);
  void emit(nn::LinearCrossEntropyOp op);
  void emit(nn::LinearCrossEntropyGradOp op);
  void emit(nn::ConcatOp op);
  void emit(nn::PadOp op);
  Storage matrix(mlir::Value value, bool transposed);
  mlir::Value headsBuffer(mlir::Value value);
  mlir::Value maskBuffer(mlir::Value mask, mlir::Value query, mlir::Value key);
  mlir::Value workspace(int64_t bytes);
  template <typename Call> void addWorkspace(Call call, int64_t bytes);
  void setChunk(exec::LinearCrossEntropyOp op);

  // EmitIndex.cpp; nothing where the op is none of these.
  std::optional<mlir::LogicalResult> emitIndexOp(mlir::Operation &op);
  void emit(nn::GatherOp op);
  void emit(nn::ScatterOp op);
  void emit(nn::TopKOp op);
  void emit(nn::GroupedMatmulOp op);
  void emit(nn::GroupedMatmulGradOp op);
  void emit(nn::WindowsOp op);
  void emit(nn::OverlapAddOp op);

  void emit(fsdp::ReduceStartOp op);
  void emit(fsdp::ViewOp op);
  void emit(mlir::func::ReturnOp op);
  void addConstant(mlir::Value value, mlir::ElementsAttr bytes);

  /// Where an operand lies.
  Storage storageOf(mlir::Value value) { return storages.lookup(value); }
  /// Where a result goes: its place, or a new private root.
  Storage resultStorage(mlir::Value value);
  /// The operand where it lies if that is row-major, else a copy.
  Storage contiguous(mlir::Value value);
  Storage copyOf(mlir::Location loc, const Storage &source);
  void copy(mlir::Location loc, const Storage &source, const Storage &target,
            bool accumulate = false);
  mlir::Value bufferOf(const Storage &storage);
  mlir::Value contiguousBuffer(mlir::Value value) {
    return bufferOf(contiguous(value));
  }
  mlir::Value resultBuffer(mlir::Value value) {
    return bufferOf(resultStorage(value));
  }
  void useIds(mlir::Value ids, int64_t limit, bool labels);

  mlir::func::FuncOp function;
  const ParameterPlaces &parameters;
  KernelCache &kernels;
  const CallOptions &calls;
  llvm::MutableArrayRef<InputUse> inputs;
  Placement placement;
  mlir::OpBuilder builder;
  mlir::Location loc; // of the op that is being emitted
  llvm::DenseMap<mlir::Value, Storage> storages, copies;
  llvm::DenseMap<mlir::Attribute, Root *> parameterRoots;
  std::map<std::tuple<Root *, int64_t, const void *>, mlir::Value> views;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_EMITTER_H
