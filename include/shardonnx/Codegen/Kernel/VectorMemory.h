// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and stores of vectors of any element type. Inside a kernel a float is
// f32 whatever its type in memory, an i1 is a byte in memory.

#ifndef SHARDONNX_CODEGEN_KERNEL_VECTORMEMORY_H
#define SHARDONNX_CODEGEN_KERNEL_VECTORMEMORY_H

#include "mlir/IR/Builders.h"
#include "shardonnx/Codegen/Kernel/Emit.h"
#include "llvm/ADT/DenseMap.h"

namespace shardonnx::kernels {

class VectorMemory {
public:
  VectorMemory(mlir::OpBuilder &builder, mlir::Location loc,
               const KernelTarget &target)
      : b(builder), loc(loc), target(target) {}

  /// The type in registers of an element type in memory.
  static mlir::Type computeType(mlir::Type elementType);
  static mlir::Type storedType(mlir::Type elementType);

  mlir::Value constant(int64_t value);
  /// base + index · stride, in elements.
  mlir::Value advance(mlir::Value base, mlir::Value index, int64_t stride,
                      mlir::Type elementType);
  /// `width` elements, `stride` apart, the first at address. Contiguous ones
  /// are `alignment` bytes aligned, by default like one element.
  mlir::Value load(mlir::Value address, mlir::Type elementType, unsigned width,
                   int64_t stride, unsigned alignment = 0);
  void store(mlir::Value vector, mlir::Value address, mlir::Type elementType,
             int64_t stride, unsigned alignment = 0);
  /// A vector's elements as they lie in memory.
  mlir::Value toStored(mlir::Value vector, mlir::Type elementType);
  /// f32 to what is left when they are stored as f16 or bf16; others as they
  /// are.
  mlir::Value round(mlir::Value vector, mlir::Type elementType);
  /// f32 to a bf16 above or below: 16 of the 32 bits are added to what is cut
  /// off. NaNs and infinities stay.
  mlir::Value roundAtRandom(mlir::Value vector, mlir::Value bits,
                            unsigned shift);
  /// The f32 whose rounding to bf16 is `upper`, itself f32 here, and whose rest
  /// has been stored as i16 (MasterHalves.h).
  mlir::Value joinHalves(mlir::Value upper, mlir::Value lower);
  /// A vector<1> or scalar repeated.
  mlir::Value splat(mlir::Value one, unsigned width);

private:
  mlir::Value widenBF16(mlir::Value vector);
  mlir::Value fromStored(mlir::Value vector, mlir::Type elementType);
  mlir::Value roundToBF16(mlir::Value vector);
  mlir::Value lowerHalf(mlir::Value vector);
  mlir::Value element(mlir::Value address, unsigned index, int64_t stride,
                      mlir::Type stored);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const KernelTarget &target;
  /// What was rounded, as it is stored: not to be rounded again.
  llvm::DenseMap<mlir::Value, mlir::Value> storedForms;
};

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_VECTORMEMORY_H
