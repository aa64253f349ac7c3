// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled once for all sources of fuzz_import: what most of them include.

#ifndef SHARDONNX_FUZZ_MLIR_H
#define SHARDONNX_FUZZ_MLIR_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"

#endif // SHARDONNX_FUZZ_MLIR_H
