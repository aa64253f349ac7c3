// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer's step over a slice as a kernel like any other.

#ifndef SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H
#define SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H

#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include <memory>

namespace shardonnx::kernels {

/// Elements: the step of each by itself. Of Muon's matrices: the momentum and
/// the direction that follows from it (shx_muon_start), and the step along what
/// that has become (shx_muon_finish).
enum class OptimizerPart { Elements, MuonMomentum, MuonStep };

/// What an optimizer's kernel computes, and on what.
struct OptimizerTypes {
  Optimizer optimizer = Optimizer::AdamW;
  /// What the unit's products read: where that is not the masters' type, the
  /// kernel also writes the new master rounded to it.
  ShxDType param = SHX_F32;
  /// Of its state: f32; bf16, rounded at random; int8, a kernel of rows, each a
  /// block with its own scale (BlockCodes.h).
  ShxDType state = SHX_F32;
  OptimizerPart part = OptimizerPart::Elements;
  /// f32, or bf16 rounded at random.
  ShxDType master = SHX_F32;
  /// Masters are what f32 has beyond `param` (MasterHalves.h).
  bool halves = false;
};

/// Of units whose products read `param`. What is gathered in another type is
/// rounded to it behind the kernel.
constexpr OptimizerTypes optimizerTypes(Optimizer optimizer, ShxDType param,
                                        const UpdateTypes &types,
                                        OptimizerPart part = {}) {
  ShxDType master = masterTypeOf(types.master, param);
  bool writesParams = gatherTypeOf(types.gather, param) == GatherDtype::Param;
  return {optimizer, writesParams ? param : master, types.state, part, master};
}

/// A kernel and the body that it describes. Its buffers are shx_optimizer's
/// arguments, of a part of Muon as that has them.
struct OptimizerKernel {
  std::unique_ptr<mlir::Region> body;
  Kernel kernel;
};

llvm::FailureOr<OptimizerKernel>
buildOptimizerKernel(mlir::MLIRContext *context, mlir::Location loc,
                     const OptimizerTypes &types);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H
