// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shardonnx-opt: mlir-opt with the project's dialects and passes.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "shardonnx/InitAll.h"

#include "llvm/Support/raw_ostream.h"

// mlir-opt's help has MLIR's passes among its options, in the order of the
// alphabet.
static bool asksForHelp(int argc, char **argv) {
  for (llvm::StringRef word : llvm::ArrayRef(argv, argc).drop_front())
    if (word == "--help" || word == "-help" || word == "-h")
      return true;
  return false;
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  shardonnx::registerAllDialects(registry);
  if (asksForHelp(argc, argv)) {
    shardonnx::registerProjectPasses();
    llvm::outs() << "Shardonnx's passes and pipelines; then all options\n\n";
    mlir::printRegisteredPasses();
    llvm::outs() << '\n';
  }
  shardonnx::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Shardonnx optimizer\n", registry));
}
