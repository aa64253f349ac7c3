// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a module of the LLVM dialect to machine code for a given processor.

#ifndef SHARDONNX_OBJECT_OBJECT_H
#define SHARDONNX_OBJECT_OBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace shardonnx {

class ObjectCache;

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

/// A relocatable object.
using ObjectBytes = llvm::SmallVector<char, 0>;

/// Gives the objects that are linked to a program: one of what is marked
/// `optnone`, and of all data; then one of each other function, in the module's
/// order, equal ones once. Those are optimised at O3. What is marked is a
/// straight line of calls as long as the model is deep, and compiled as it is.
/// Objects are made side by side, but for those that the cache has.
/// `translated` is called where the module is no longer needed.
llvm::Error emitObjects(
    mlir::ModuleOp module, const TargetSpec &target, const ObjectCache *cache,
    std::vector<ObjectBytes> &objects,
    llvm::function_ref<void()> translated = [] {});

/// What emitObjects() makes objects of, as one module and as text.
llvm::Expected<std::string> emitLLVMIR(mlir::ModuleOp module,
                                       const TargetSpec &target);

/// LLVM's pipeline at O3, without what the kernel generator has done itself.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace shardonnx

#endif // SHARDONNX_OBJECT_OBJECT_H
