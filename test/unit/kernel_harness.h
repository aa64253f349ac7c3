// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates kernels from nn.fused groups given as text, runs them in this
// process, and evaluates the same groups naively in f64.

#ifndef SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H
#define SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "shardonnx/Conversion/ExecToLLVM/Object.h"
#include "shardonnx/Conversion/NNToKernels/Kernel.h"
#include "shardonnx/runtime/ABI.h"
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
}

namespace shardonnx::test {

/// How the buffers of a case lie in memory.
enum class Layout { Contiguous, Padded, Transposed };

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

/// A module of lowered kernels, compiled into this process.
class CompiledModule {
public:
  CompiledModule(mlir::ModuleOp module, const TargetSpec &target);
  ~CompiledModule();
  ShxKernel lookup(llvm::StringRef name);
  std::string llvmIR;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

class CompiledKernel {
public:
  CompiledKernel(nn::FusedOp fused, llvm::ArrayRef<mlir::MemRefType> layouts,
                 const TargetSpec &target);

  void run(llvm::ArrayRef<void *> args, int64_t begin, int64_t end) const {
    function(args.data(), begin, end);
  }
  kernels::KernelLaunch launch{0, 0};
  kernels::Kernel::Mode mode;

private:
  std::unique_ptr<CompiledModule> module;
  ShxKernel function = nullptr;
};

/// A module that holds one nn.fused, parsed from text.
struct ParsedGroup {
  explicit ParsedGroup(llvm::StringRef text);
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  nn::FusedOp fused;
};

/// Compiles the group on buffers of a layout, runs it whole and in random
/// chunks (equal bits), and compares with the naive evaluation.
void checkGroup(llvm::StringRef text, Layout layout, unsigned seed,
                double tolerance, llvm::StringRef arch = "native");

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_KERNEL_HARNESS_H
