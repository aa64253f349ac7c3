// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an nn op that becomes a library call needs to know of memory.

#ifndef SHARDONNX_DIALECT_EXEC_IR_LIBRARYCALL_H
#define SHARDONNX_DIALECT_EXEC_IR_LIBRARYCALL_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/IR/Layout.h"
#include "shardonnx/runtime/Workspace.h"

#include <map>
#include <tuple>

namespace shardonnx::exec {

/// A piece of memory that values are views of: an exec.alloc or a buffer of
/// another space.
struct Root {
  Space space = Space::private_;
  mlir::FlatSymbolRefAttr symbol; // unit or constant
  int64_t offset = 0;             // as exec.buffer's
  llvm::SmallVector<int64_t> shape;
  mlir::Type elementType;
  mlir::Value value; // the alloc or buffer, once it is emitted
};

/// Where a value lies.
struct Storage {
  Root *root = nullptr;
  Layout layout;
};

/// The device's library calls, and what is asked of them.
struct CallOptions {
  const LibraryModel &libraries;
  bool tf32 = false, deterministic = false;
};

/// Where operands lie and results go: what LibraryCallOpInterface::emitCall
/// makes exec ops with.
class CallEmitter {
public:
  CallEmitter(mlir::OpBuilder builder, mlir::Location loc,
              const CallOptions &options)
      : builder(builder), loc(loc), options(options) {}
  virtual ~CallEmitter() = default;

  /// Where an operand lies.
  virtual Storage storageOf(mlir::Value operand) = 0;
  /// The operand where it lies if that is row-major, else a copy.
  virtual Storage contiguous(mlir::Value operand) = 0;
  /// Where a result goes.
  virtual Storage resultStorage(mlir::Value result) = 0;
  /// Whether the result is added to what lies there.
  virtual bool accumulates(mlir::Value result) = 0;
  /// Says that a graph input holds ids of a table below `limit`; with
  /// `ignored`, labels below it, of which those equal to `ignored` count in no
  /// loss.
  virtual void useIds(mlir::Value ids, int64_t limit,
                      std::optional<int64_t> ignored) = 0;
  /// The memory as an operand of exec ops.
  virtual mlir::Value bufferOf(const Storage &storage) = 0;
  /// The same elements in new memory, row-major.
  virtual Storage copyOf(const Storage &source) = 0;

  /// A buffer that several calls read and that follows from `source` and a
  /// number alone: null until one has made it.
  mlir::Value &derivedFrom(const Storage &source, int64_t number) {
    return derived[{source.root, source.layout.offset, number}];
  }

  void copy(const Storage &source, const Storage &target,
            bool accumulate = false);
  void fillWithZero(const Storage &target);

  /// The operand in any layout.
  mlir::Value buffer(mlir::Value operand) {
    return bufferOf(storageOf(operand));
  }
  mlir::Value contiguousBuffer(mlir::Value operand) {
    return bufferOf(contiguous(operand));
  }
  /// The operand with a contiguous last axis.
  mlir::Value rowsBuffer(mlir::Value operand);
  mlir::Value resultBuffer(mlir::Value result) {
    return bufferOf(resultStorage(result));
  }

  /// Creates the call and, once its other operands tell how large, its
  /// workspace before it.
  template <typename Call, typename... Arguments>
  Call create(Arguments &&...arguments) {
    auto call =
        Call::create(builder, loc, std::forward<Arguments>(arguments)...);
    if (auto op = llvm::dyn_cast<WorkspaceOpInterface>(call.getOperation()))
      addWorkspace(op);
    return call;
  }
  void addWorkspace(WorkspaceOpInterface call);

  mlir::OpBuilder builder;
  mlir::Location loc; // of the op that is being emitted
  const CallOptions &options;

private:
  std::map<std::tuple<Root *, int64_t, int64_t>, mlir::Value> derived;
};

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_IR_LIBRARYCALL_H
