// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from nn ops to fused groups, and from groups to code.

#ifndef SHARDONNX_CONVERSION_NNTOKERNELS_PASSES
#define SHARDONNX_CONVERSION_NNTOKERNELS_PASSES

include "mlir/Pass/PassBase.td"

def NNDecomposePass : Pass<"nn-decompose", "::mlir::func::FuncOp"> {
  let summary = "Takes norms, softmax, rotary and losses apart";
  let description = [{
    Every op with DecomposableOpInterface becomes elementwise, reduce and shape
    ops. Runs after differentiation. Preserves numerics bit for bit.
  }];
}

def NNNormalizeReductionsPass
    : Pass<"nn-normalize-reductions", "::mlir::func::FuncOp"> {
  let summary = "Writes each reduction over the last axis, or over all others";
  let description = [{
    A reduction over other axes becomes one of these two with reshapes and
    transposes around it; a total is taken in two steps. Sums are taken in
    another order.
  }];
}

def NNRecomputePass : Pass<"nn-recompute", "::mlir::func::FuncOp"> {
  let summary = "Backward computes values again rather than keep them";
  let description = [{
    Of all values that backward needs from forward, keeps a set of fewest bytes
    from which elementwise ops alone give the rest (a minimum cut; of several
    the one that computes least). Backward begins with what depends on
    nn.loss_scale; parameters, inputs and constants cost nothing. Runs before
    the units are gathered, since it makes backward read parameters.

    In a unit that the module's `fsdp.recompute_plan` calls `selective`, every
    pure op may be computed again but library calls: matrix products, attention,
    losses, lookups. Where the plan has a price P, these may be too, at the
    price of their FLOPs, where a byte kept costs P FLOPs: what is kept and what
    is computed together are the cheapest (the same cut, with ops as edges).
    What another unit reads is always kept.

    Preserves numerics bit for bit.
  }];
}

def NNFuseEpiloguesPass : Pass<"nn-fuse-epilogues", "::mlir::func::FuncOp"> {
  let summary = "Bias, GELU and their gradients become part of matrix products";
  let description = [{
    For a library that does them in one call (cuBLASLt): a bias that another
    library call reads, bias and GELU with the pre-activation as second result,
    GELU's gradient, and a bias's gradient beside that of the weight. Runs after
    nn-recompute: what it saved for backward is replaced by a value of the same
    size, and GELU's output is computed again from the pre-activation where it
    was. A sum of a product and a bias is rounded once instead of twice, and
    GELU is the library's: bf16 and f16 only.
  }];
}

def NNFusePass : Pass<"nn-fuse", "::mlir::func::FuncOp"> {
  let summary = "Groups elementwise ops and reductions into nn.fused kernels";
  let description = [{
    Producers with consumers, then groups that read the same tensors. Groups
    never form a cycle through other ops, and never read parameters of two
    units. Sums over leading axes take clones of the elementwise ops that feed
    them. Preserves numerics but for roundings that a value kept in registers
    does not see (bf16, f16).
  }];
}

def DedupeKernelsPass : Pass<"exec-dedupe-kernels", "::mlir::ModuleOp"> {
  let summary = "Leaves one of all kernels with equal bodies and layouts";
  let description = [{
    The layers of a model give the same kernels over and over; launches of the
    others call the first. Preserves numerics bit for bit.
  }];
}

def AddKernelWorkspacesPass
    : Pass<"exec-add-kernel-workspaces", "::mlir::ModuleOp"> {
  let summary = "Gives launches the memory that GPU kernels keep between stages";
  let description = [{
    Column sums are taken in two stages on a GPU: partial sums of blocks of
    rows, then their sum. The partial sums are an exec.alloc, so that the memory
    plan counts them. Preserves numerics bit for bit.
  }];
  let dependentDialects = ["::shardonnx::exec::ExecDialect"];
}

def LowerKernelsPass : Pass<"exec-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Emits each exec.kernel as an llvm.func of type ShxKernel";
  let description = [{
    Vectors of the processor's width, math as polynomials, reductions in an
    order that depends on the shape alone. For a module of kernels; in a
    compilation `exec` is lowered together with them.
  }];
  let options = [Option<"arch", "arch", "std::string", "\"native\"",
                        "Processor, as in --arch">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def LowerDeviceKernelsPass
    : Pass<"exec-lower-device-kernels", "::mlir::ModuleOp"> {
  let summary = "Emits each exec.kernel as GPU functions in a module @device";
  let description = [{
    llvm.func with nvvm.kernel, one for each launch: accesses of 16 bytes a
    thread where lengths and alignments allow it, rows reduced by shuffles and
    shared memory, columns in two launches without atomics. `exec.blocks` on a
    function says how many blocks a launch has. Leaves the module @device alone,
    to look at it; in a compilation `exec` is lowered together with kernels.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def PrintPTXPass : Pass<"exec-print-ptx", "::mlir::ModuleOp"> {
  let summary = "Prints a module @device as PTX";
  let description = [{
    To standard output, as it is in a program. With `report`, what
    `ptxas -v` says of it (registers, stack, spills) in place of the text.
    Changes nothing.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"sm_90\"",
                        "GPU, as in --gpu-arch">,
                 Option<"report", "report", "bool", "false",
                        "Print what ptxas reports">];
}

#endif // SHARDONNX_CONVERSION_NNTOKERNELS_PASSES
