// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shardonnx-opt: mlir-opt with the project's dialects and passes.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "shardonnx/InitAll.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  shardonnx::registerAllDialects(registry);
  shardonnx::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Shardonnx optimizer\n", registry));
}
