// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the nn dialect. Each op family has its own file beside this.

#include "Shardable.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;

#include "shardonnx/Dialect/NN/IR/NNInterfaces.cpp.inc"
#include "shardonnx/Dialect/NN/IR/NNOpsDialect.cpp.inc"
#include "shardonnx/Dialect/NN/IR/NNOpsEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "shardonnx/Dialect/NN/IR/NNOpsAttrs.cpp.inc"

void nn::NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "shardonnx/Dialect/NN/IR/NNOpsAttrs.cpp.inc"
      >();
  registerNNDialectOperations(this);
  registerConvolutionOps(*this);
  registerF8Ops(*this);
  registerIndexOps(*this);
  registerMathOps(*this);
  registerMeshOps(*this);
  attachShardings(*getContext());
}

Operation *nn::NNDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return ConstantOp::create(builder, loc, cast<RankedTensorType>(type),
                              elements);
  return nullptr;
}

Attribute nn::unitSetting(Operation *op, StringRef unit, StringRef key) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto policies = module->getAttrOfType<DictionaryAttr>(kUnitPoliciesAttr);
  auto policy = policies ? policies.getAs<DictionaryAttr>(unit) : nullptr;
  return policy ? policy.get(key) : Attribute();
}
