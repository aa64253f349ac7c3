// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From an object file to what can be run: a training executable, or a shared
// object and the program that loads it.

#ifndef SHARDONNX_TARGET_LINK_H
#define SHARDONNX_TARGET_LINK_H

#include "shardonnx/Object/Object.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace shardonnx {

/// Links the objects with the runtime to an executable that needs neither. The
/// output appears whole or not at all.
llvm::Error linkExecutable(llvm::ArrayRef<ObjectBytes> objects,
                           llvm::StringRef outputPath, bool cuda = false);

/// Links the objects to a shared object that findEvalProgram() can load.
llvm::Error linkLibrary(llvm::ArrayRef<ObjectBytes> objects,
                        llvm::StringRef outputPath);

/// One relocatable object of several.
llvm::Expected<ObjectBytes> combineObjects(llvm::ArrayRef<ObjectBytes> objects);

/// The program `shardonnx-eval`, beside this one.
llvm::Expected<std::string> findEvalProgram();

} // namespace shardonnx

#endif // SHARDONNX_TARGET_LINK_H
