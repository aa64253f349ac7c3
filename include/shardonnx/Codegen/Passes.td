// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from kernels to code for CPUs and GPUs.

#ifndef SHARDONNX_CODEGEN_PASSES
#define SHARDONNX_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

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

#endif // SHARDONNX_CODEGEN_PASSES
