// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the fsdp dialect and the syntax of its attributes.

#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

#include "shardonnx/Dialect/FSDP/IR/FSDPOpsDialect.cpp.inc"
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsTypes.cpp.inc"

void FSDPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "shardonnx/Dialect/FSDP/IR/FSDPOpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "shardonnx/Dialect/FSDP/IR/FSDPOps.cpp.inc"
      >();
}
