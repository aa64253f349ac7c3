// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers every dialect and pass of the project.

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "shardonnx/Codegen/Passes.h"
#include "shardonnx/Conversion/ExecToLLVM/ExecToLLVM.h"
#include "shardonnx/Conversion/FSDPToExec/Passes.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Differentiate/Passes.h"
#include "shardonnx/InitAll.h"

void shardonnx::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<exec::ExecDialect, fsdp::FSDPDialect, nn::NNDialect,
                  onnx::ONNXDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::math::MathDialect,
                  mlir::vector::VectorDialect>();
}

void shardonnx::registerProjectPasses() {
  registerONNXToNNPasses();
  exec::registerExecPasses();
  registerFSDPToExecPasses();
  registerExecToLLVMPasses();
  registerCodegenPasses();
  fsdp::registerFSDPPasses();
  fsdp::registerFSDPPipelines();
  nn::registerNNPasses();
  nn::registerNNPipelines();
  registerDifferentiatePasses();
}

void shardonnx::registerAllPasses() {
  mlir::registerTransformsPasses();
  registerProjectPasses();
}
