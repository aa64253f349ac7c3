// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program's LLVM module as parts that are compiled each by itself.

#ifndef SHARDONNX_LIB_OBJECT_SPLITMODULE_H
#define SHARDONNX_LIB_OBJECT_SPLITMODULE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace shardonnx {

struct ModulePart {
  /// The part, its kernel under a name that other kernels of the program do not
  /// change: who has the same bytes has the same code.
  llvm::SmallString<0> bitcode;
  bool isKernel = false; // else the functions marked `optnone`, and data
  /// What the kernel is called here, and in its object.
  std::string name, symbol;
};

/// First what is no kernel. Takes the kernels' bodies out of the module; equal
/// ones are one part.
std::vector<ModulePart> splitModule(llvm::Module &module);

/// The part's module, its kernel under the name that it has in the object.
llvm::Expected<std::unique_ptr<llvm::Module>>
readPart(const ModulePart &part, llvm::LLVMContext &context);

} // namespace shardonnx

#endif // SHARDONNX_LIB_OBJECT_SPLITMODULE_H
