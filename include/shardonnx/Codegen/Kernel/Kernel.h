// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a generated kernel is, apart from any machine: a body of nn ops, the
// iteration space, and where each buffer's elements lie. The emitters turn it
// into code for a target.

#ifndef SHARDONNX_CODEGEN_KERNEL_KERNEL_H
#define SHARDONNX_CODEGEN_KERNEL_KERNEL_H

#include "mlir/IR/BuiltinTypes.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

namespace shardonnx::exec {
class KernelOp;
} // namespace shardonnx::exec

namespace shardonnx::kernels {

/// Where the elements of one operand lie: element (i0, i1, …) of the iteration
/// space is at offset + Σ i·stride, stride 0 where the operand broadcasts.
struct BufferLayout {
  mlir::Type elementType;
  llvm::SmallVector<int64_t> strides;
  int64_t offset = 0;
};

/// A result that is stored as bf16, up or down at random with the chance that
/// keeps its mean (VectorMemory::roundAtRandom). The bits are a function of a
/// key and of the element's place alone.
struct RandomRounding {
  mlir::BlockArgument key;   // i32, uniform
  mlir::BlockArgument first; // ShxPiece::first
  unsigned shift = 0;        // which 16 of an element's 64 bits
};

/// How the runtime splits a kernel: [0, count) in chunks of multiples of grain.
struct KernelLaunch {
  int64_t count;
  int64_t grain;
};

/// A kernel in canonical form: axes of size one are dropped and axes that every
/// buffer walks as one are merged, so that the emitters see few axes.
class Kernel {
public:
  /// Flat: elementwise, everything contiguous, split anywhere. Rows: split by
  /// rows, the last axis is the row; on GPUs they may be summed besides.
  /// Columns: split by columns, rows are summed.
  enum class Mode { Flat, Rows, Columns };

  /// memrefTypes: the layouts of the body's arguments, then of its results.
  static llvm::FailureOr<Kernel>
  get(nn::FusedKind kind, llvm::ArrayRef<int64_t> domain, mlir::Block &body,
      llvm::ArrayRef<mlir::MemRefType> memrefTypes);

  /// Which entry of the argument array holds each buffer, where several share
  /// one: results in place, and scalars at their offsets.
  void setSlots(llvm::ArrayRef<unsigned> newSlots) {
    slots.assign(newSlots.begin(), newSlots.end());
  }
  unsigned getSlot(unsigned buffer) const {
    return slots.empty() ? buffer : slots[buffer];
  }

  /// Of an op's result, whoever reads it.
  void setRounding(mlir::Value value, RandomRounding how) {
    roundings[value] = how;
  }
  std::optional<RandomRounding> getRounding(mlir::Value value) const {
    auto found = roundings.find(value);
    if (found == roundings.end())
      return std::nullopt;
    return found->second;
  }
  /// Of an f32 that is read as its rounding to bf16: what that lacks, 16 bits
  /// of an argument. Whatever is stored as 16 bits of an integer is such a
  /// rest (VectorMemory::joinHalves).
  void setLowerHalf(mlir::Value value, mlir::BlockArgument lower) {
    lowerHalves[value] = lower;
  }
  std::optional<mlir::BlockArgument> getLowerHalf(mlir::Value value) const {
    auto found = lowerHalves.find(value);
    if (found == lowerHalves.end())
      return std::nullopt;
    return found->second;
  }
  /// Of a maximum or a minimum: its operands are numbers, so that it need not
  /// keep a NaN.
  void setOfNumbers(mlir::Value value) { ofNumbers.insert(value); }
  bool isOfNumbers(mlir::Value value) const {
    return ofNumbers.contains(value);
  }
  /// Arguments that a device's function has by value (an optimizer's piece).
  void setValueSlot(unsigned slot) { valueSlot = slot; }
  std::optional<unsigned> getValueSlot() const { return valueSlot; }
  bool isByValue(unsigned buffer) const {
    return valueSlot && getSlot(buffer) == *valueSlot;
  }

  Mode getMode() const { return mode; }
  KernelLaunch getLaunch() const;

  /// Sizes of the axes in front of the vector axis, and of the vector axis.
  llvm::ArrayRef<int64_t> getLeadingSizes() const {
    return llvm::ArrayRef(sizes).drop_back();
  }
  int64_t getRowLength() const { return sizes.back(); }
  int64_t getRowCount() const;

  mlir::Block &getBody() const { return *body; }
  unsigned getNumInputs() const { return body->getNumArguments(); }
  llvm::ArrayRef<BufferLayout> getBuffers() const { return buffers; }
  const BufferLayout &getOutput(unsigned i) const {
    return buffers[getNumInputs() + i];
  }
  mlir::ValueRange getYielded() const {
    return body->getTerminator()->getOperands();
  }
  /// The sums over all rows, in order.
  llvm::SmallVector<mlir::Operation *> getColumnSums() const;

  /// The steps of whole tensors (nn.f8_tensor_step; GPUs), in order.
  llvm::SmallVector<mlir::Operation *> getTensorSteps() const;
  /// Of a kernel over rows: is the result one of elements or rows, which is
  /// stored as they are computed, and not joined over all of them?
  bool isStored(mlir::Value yielded) const;

  /// True if the value is the same along the whole vector axis.
  bool isUniform(mlir::Value value) const { return uniform.contains(value); }
  /// The canonical axis that an iota counts along; none if it has size one.
  std::optional<unsigned> getIotaAxis(nn::IotaOp op) const;

private:
  void dropUnitAxes();
  void mergeAxes();
  void chooseVectorAxis();
  void removeAxis(unsigned axis);
  bool mayMerge(unsigned outer) const;
  void classify();

  Mode mode = Mode::Rows;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<BufferLayout> buffers;
  llvm::SmallVector<unsigned> slots;
  llvm::SmallDenseMap<mlir::Value, RandomRounding> roundings;
  llvm::SmallDenseMap<mlir::Value, mlir::BlockArgument> lowerHalves;
  llvm::DenseSet<mlir::Value> ofNumbers;
  std::optional<unsigned> valueSlot;
  mlir::Block *body = nullptr;
  bool hasReductions = false;
  /// For each axis of the original domain its canonical one, or -1.
  llvm::SmallVector<int> axisOf;
  llvm::DenseSet<mlir::Value> uniform;
};

/// What an exec.kernel describes; fails if its operands do not fit its domain.
llvm::FailureOr<Kernel> describeKernel(exec::KernelOp op);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_KERNEL_H
