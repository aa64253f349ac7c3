// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates kernels from nn.fused groups given as text, runs them, and
// evaluates the same groups naively in f64.

#ifndef SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H
#define SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "shardonnx/Codegen/CPU/LowerKernels.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace shardonnx::test {

/// How the buffers of a case lie in memory. Columns: contiguous, those of 8
/// bits with the last axis first.
enum class Layout { Contiguous, Padded, Transposed, Columns };

/// Memory of one operand: bytes, and where each element of its shape lies.
struct Buffer {
  mlir::MemRefType type;
  std::vector<uint8_t> bytes;

  static Buffer make(mlir::RankedTensorType tensor, Layout layout,
                     std::mt19937 &random);
  int64_t offsetOf(llvm::ArrayRef<int64_t> index) const;
  double read(llvm::ArrayRef<int64_t> index) const;
  void write(llvm::ArrayRef<int64_t> index, double value);
};

/// A tensor of f64 in row-major order.
struct Dense {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;
};

/// Evaluates a fused group's body.
std::vector<Dense> evaluate(nn::FusedOp fused, llvm::ArrayRef<Dense> inputs);
Dense toDense(const Buffer &buffer);

/// A kernel on the machine that a test program is for: the CPU
/// (cpu_kernel_runner.cpp) or a GPU (device_kernel_runner.cpp).
class KernelRunner {
public:
  virtual ~KernelRunner() = default;
  /// Inputs, then outputs; one buffer may be both.
  virtual void run(llvm::ArrayRef<Buffer *> buffers) = 0;
  /// The same in another way that must give the same bits.
  virtual void runOtherwise(llvm::ArrayRef<Buffer *> buffers,
                            std::mt19937 &random) = 0;
};

/// `arch`: a processor; the machine's own if empty.
std::unique_ptr<KernelRunner> makeRunner(nn::FusedOp fused,
                                         llvm::ArrayRef<mlir::MemRefType> types,
                                         llvm::StringRef arch = "");

/// The slices of shx_optimizer, as bytes; what the kernel has not is empty.
struct OptimizerSlices {
  std::vector<float> &master, &gradient;
  llvm::MutableArrayRef<uint8_t> states[2] = {}, params = {}, scales[2] = {};
  std::vector<int16_t> *lower = nullptr; // of masters in halves
};
template <typename T>
llvm::MutableArrayRef<uint8_t> rawBytes(std::vector<T> &values) {
  return {reinterpret_cast<uint8_t *>(values.data()),
          values.size() * sizeof(T)};
}

/// The optimizer's kernel on a part of slices that begin with a unit.
class OptimizerRunner {
public:
  virtual ~OptimizerRunner() = default;
  virtual void run(const OptimizerSlices &slices, llvm::ArrayRef<float> scalars,
                   int64_t begin, int64_t end) = 0;
};
std::unique_ptr<OptimizerRunner>
makeOptimizerRunner(const kernels::OptimizerTypes &types);

/// A module that holds one nn.fused, parsed from text.
struct ParsedGroup {
  explicit ParsedGroup(llvm::StringRef text);
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  nn::FusedOp fused;
};

/// Compiles the group on buffers of a layout, runs it in two ways (equal bits)
/// and compares with the naive evaluation. In place: the first output, of the
/// first input's type, lies where that lies.
void checkGroup(llvm::StringRef text, Layout layout, unsigned seed,
                double tolerance, llvm::StringRef arch = "",
                bool inPlace = false);

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H
