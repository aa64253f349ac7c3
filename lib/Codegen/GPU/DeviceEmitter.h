// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the emitters of GPU kernels share: a function's frame, its threads, and
// communication between them.

#ifndef SHARDONNX_LIB_CODEGEN_GPU_DEVICEEMITTER_H
#define SHARDONNX_LIB_CODEGEN_GPU_DEVICEEMITTER_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "shardonnx/Codegen/GPU/LowerDeviceKernels.h"
#include "shardonnx/Codegen/Kernel/BodyEmitter.h"

namespace shardonnx::kernels {

constexpr unsigned kWarp = 32;
constexpr unsigned kAccessBytes = 16; // widest load or store of one thread

/// What is known of a kernel's buffers before any code is emitted.
struct DeviceAccess {
  DeviceAccess(const Kernel &kernel, llvm::ArrayRef<unsigned> alignments);

  /// How far vectors of `lanes` elements are aligned in each buffer, bytes.
  llvm::SmallVector<unsigned> alignmentsFor(unsigned lanes) const;
  /// Registers that one vector of all operands takes as it lies in memory.
  unsigned bytesPerLane() const;
  /// True if operand i is read once along the vector axis for each row alone.
  bool isRowOperand(unsigned i) const;

  const Kernel &kernel;
  llvm::SmallVector<unsigned> bases;  // of each buffer's rows, bytes
  llvm::SmallVector<unsigned> starts; // of its first element
  /// Elements that a thread handles together: 16 bytes of the narrowest type
  /// where lengths and strides allow it.
  unsigned lanes = 1;
};

/// One function under construction.
struct DeviceEmitter {
  /// Creates the function with the builder inside; `args` as in DeviceLaunch.
  DeviceEmitter(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name,
                const DeviceAccess &access, int32_t threads,
                bool hasWorkspace = false, bool hasCount = false);
  /// Ends the function and takes it to LLVM.
  llvm::FailureOr<DeviceLaunch> finish(int64_t blocks,
                                       int64_t elementsPerBlock = 0);

  mlir::Value constant(int64_t value) {
    return body.getMemory().constant(value);
  }
  mlir::Value i32(int64_t value);
  /// An unsigned i32 as an index.
  mlir::Value index(mlir::Value value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value div(mlir::Value x, int64_t y);
  mlir::Value rem(mlir::Value x, int64_t y);
  mlir::Value less(mlir::Value x, mlir::Value y);
  mlir::scf::ForOp loop(mlir::Value begin, mlir::Value end, mlir::Value step,
                        mlir::ValueRange inits = {}) {
    return mlir::scf::ForOp::create(b, loc, begin, end, step, inits);
  }
  using Values = llvm::SmallVector<mlir::Value>;
  /// The values that `then` gives where the condition holds, else those of
  /// `otherwise`.
  Values choose(mlir::Value condition, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  /// Emits `then` where the condition holds; always, without a condition.
  void when(mlir::Value condition, llvm::function_ref<void()> then);
  /// Sets what the function has by value, as it is in every row.
  void setParameters(Scope &scalars);
  /// Splits an i32 row number into indices along the leading axes.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value row);

  /// x and y joined as a reduction joins them.
  mlir::Value combine(mlir::Operation *reduction, mlir::Value x, mlir::Value y);
  /// All lanes of a vector joined, as an f32.
  mlir::Value combineLanes(mlir::Operation *reduction, mlir::Value vector);
  mlir::Value identity(mlir::Operation *reduction, unsigned width);
  /// x of all threads of groups of `threads` (a power of two, within a warp)
  /// joined, in every one of them.
  mlir::Value combineWarp(mlir::Operation *reduction, mlir::Value x,
                          unsigned threads);
  void barrier();
  /// An array of f32 in shared memory, called as the function with a suffix.
  mlir::Value sharedArray(int64_t elements, llvm::StringRef suffix = "_shared");

  /// Of each step of whole tensors, the largest value that the thread has seen:
  /// before the first, and with a vector more.
  llvm::SmallVector<mlir::Value> noLargest();
  mlir::Value addToLargest(mlir::Operation *step, Scope &scope,
                           mlir::Value largest);
  /// Joins what all threads have seen and stores the steps; all threads come
  /// here.
  void storeSteps(llvm::ArrayRef<mlir::Value> largest);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const DeviceAccess &access;
  const Kernel &kernel;
  BodyEmitter body;
  mlir::Operation *function;            // llvm.func
  llvm::SmallVector<mlir::Value> bases; // of each buffer
  mlir::Value workspace, count; // count: the end of an optimizer's piece
  mlir::ValueRange values;      // of the arguments by value, in order
  mlir::Value thread, block;    // i32
  DeviceLaunch launch;
  llvm::SmallVector<mlir::Operation *> steps; // of whole tensors

private:
  llvm::SmallVector<mlir::Value> joinBlock(llvm::ArrayRef<mlir::Value> largest);
};

using DeviceLaunches = llvm::SmallVector<DeviceLaunch>;
llvm::FailureOr<DeviceLaunches>
emitDeviceElementwise(mlir::OpBuilder &b, mlir::Location loc,
                      llvm::StringRef name, const DeviceAccess &access,
                      const DeviceTarget &target);
llvm::FailureOr<DeviceLaunches>
emitDeviceRows(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name,
               const DeviceAccess &access, const DeviceTarget &target);
llvm::FailureOr<DeviceLaunches>
emitDeviceColumns(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name,
                  const DeviceAccess &access, const DeviceTarget &target);
/// Rows of a chunk of a kernel that sums columns, and how many chunks there
/// are: what each adds to a column is added in order by a launch of its own.
/// Known before the buffers' alignments are, since the memory plan asks for the
/// size.
int64_t rowsPerChunk(const Kernel &kernel);
int64_t columnChunksOf(const Kernel &kernel);
/// Where a chunk's part of a column's sum number `sum` lies.
mlir::Value partialOf(DeviceEmitter &e, unsigned sum, mlir::Value chunk,
                      mlir::Value column);
/// The launch that adds chunks, behind the one that made them.
llvm::LogicalResult emitColumnTotals(mlir::OpBuilder &b, mlir::Location loc,
                                     llvm::StringRef name,
                                     const DeviceAccess &access,
                                     DeviceLaunches &launches);
/// The optimizer's kernel over as many elements as its last parameter says.
llvm::FailureOr<DeviceLaunch>
emitDeviceCounted(mlir::OpBuilder &b, mlir::Location loc, llvm::StringRef name,
                  const DeviceAccess &access, const DeviceTarget &target);
/// The same of a kernel of rows, which are blocks of elements.
llvm::FailureOr<DeviceLaunch> emitDeviceCountedRows(mlir::OpBuilder &b,
                                                    mlir::Location loc,
                                                    llvm::StringRef name,
                                                    const DeviceAccess &access,
                                                    const DeviceTarget &target);

/// What the emitters create ops of.
void registerDeviceDialects(mlir::DialectRegistry &registry);
void loadDeviceDialects(mlir::MLIRContext &context);

/// Math as the GPU's instructions and polynomials.
void expandDeviceMath(mlir::Operation *function);

} // namespace shardonnx::kernels

#endif // SHARDONNX_LIB_CODEGEN_GPU_DEVICEEMITTER_H
