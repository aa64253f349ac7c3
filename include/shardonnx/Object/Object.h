// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of the LLVM dialect to machine code for a given processor.

#ifndef SHARDONNX_OBJECT_OBJECT_H
#define SHARDONNX_OBJECT_OBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace shardonnx {

/// The processor that code is made for. Without a triple or a CPU LLVM makes
/// no vectors, so every compilation names both.
struct TargetSpec {
  std::string triple;
  std::string cpu;
  std::string features;      // "+avx2,+fma,…", beyond what the CPU implies
  unsigned vectorBits = 256; // of the registers that kernels use
  bool nativeBF16 = false;   // AVX512_BF16

  unsigned lanes() const { return vectorBits / 32; }
};

/// `native`, or a CPU name that LLVM knows (`x86-64-v3`, `znver3`, …). An
/// unknown name is an error that lists some known ones.
llvm::Expected<TargetSpec> resolveTarget(llvm::StringRef arch);

/// Translates the module to LLVM IR, optimises it at O3 for the target and
/// gives the relocatable object; also the optimised IR as text, if asked.
llvm::Error emitObject(mlir::ModuleOp module, const TargetSpec &target,
                       llvm::SmallVectorImpl<char> &object,
                       std::string *llvmIR = nullptr);

/// LLVM's pipeline at O3, without what the kernel generator has done itself.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace shardonnx

#endif // SHARDONNX_OBJECT_OBJECT_H
