// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels and constants of a module, each made once: the blocks of a
// transformer are alike, and so is most of what they run.

#ifndef SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_KERNELCACHE_H
#define SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_KERNELCACHE_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"

#include <map>
#include <vector>

namespace shardonnx {

class KernelCache {
public:
  explicit KernelCache(mlir::ModuleOp module);

  /// The kernel of this body on buffers of these types (inputs, then outputs).
  mlir::FlatSymbolRefAttr kernel(nn::FusedOp fused,
                                 llvm::ArrayRef<mlir::Type> types);

  /// The constant of these bytes.
  mlir::FlatSymbolRefAttr constant(mlir::Location loc,
                                   mlir::ElementsAttr value);

private:
  template <typename OpT> mlir::FlatSymbolRefAttr insert(OpT op);

  mlir::ModuleOp module;
  mlir::OpBuilder builder; // of ops that are inserted later
  mlir::Operation *last = nullptr;
  mlir::SymbolTable symbols;
  std::map<std::vector<uintptr_t>, mlir::FlatSymbolRefAttr> kernels;
  llvm::DenseMap<mlir::Attribute, mlir::FlatSymbolRefAttr> constants;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_FSDPTOEXEC_KERNELCACHE_H
