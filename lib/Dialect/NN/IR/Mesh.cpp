// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops between the ranks of an axis: shape rules, verifiers, gradients; and the
// mesh as modules and parameters have it.

#include "DefineOps.h"
#include "Evaluate.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "shardonnx/runtime/MeshABI.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNMeshOps.cpp.inc"

void nn::registerMeshOps(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNMeshOps.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// The mesh
//===----------------------------------------------------------------------===//

Mesh nn::meshOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Mesh mesh;
  auto given =
      module ? module->getAttrOfType<DictionaryAttr>(kMeshAttr) : nullptr;
  if (!given)
    return mesh;
  for (MeshAxis axis : allValues<MeshAxis>())
    if (auto ranks = given.getAs<IntegerAttr>(spell(axis)))
      mesh.set(axis, ranks.getInt());
  return mesh;
}

void nn::setMesh(Operation *module, const Mesh &mesh) {
  Builder b(module->getContext());
  NamedAttrList axes;
  for (MeshAxis axis : allValues<MeshAxis>())
    if (int64_t ranks = mesh.size(axis))
      axes.set(spell(axis), b.getI64IntegerAttr(ranks));
  module->setAttr(kMeshAttr, axes.getDictionary(module->getContext()));
}

std::optional<Split> nn::splitOf(ParameterOp parameter) {
  auto given = parameter->getAttrOfType<DictionaryAttr>(kSplitAttr);
  if (!given)
    return std::nullopt;
  ArrayRef<int64_t> sections =
      given.getAs<DenseI64ArrayAttr>("sections").asArrayRef();
  return Split{given.getAs<IntegerAttr>("dim").getInt(),
               {sections.begin(), sections.end()}};
}

void nn::setSplit(ParameterOp parameter, MeshAxis axis,
                  const Sharding &sharding) {
  Builder b(parameter.getContext());
  NamedAttrList split;
  split.set("axis", b.getStringAttr(spell(axis)));
  split.set("dim", b.getI64IntegerAttr(sharding.dim));
  split.set("sections", b.getDenseI64ArrayAttr(sharding.sections));
  parameter->setAttr(kSplitAttr, split.getDictionary(parameter.getContext()));
}

bool nn::isCollective(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, ReduceScatterOp>(op);
}

//===----------------------------------------------------------------------===//
// Verifiers, shape rules
//===----------------------------------------------------------------------===//

/// The axis is the module's, where the module has a mesh.
template <typename Op> static LogicalResult verifyAxis(Op op) {
  std::optional<MeshAxis> axis = parseSpelling<MeshAxis>(op.getAxis());
  if (!axis)
    return op.emitOpError("is of an axis '")
           << op.getAxis() << "', which no mesh has";
  int64_t parts = op.getParts();
  if (parts < 2)
    return op.emitOpError("needs an axis of several ranks, not of ") << parts;
  Mesh mesh = meshOf(op);
  if (mesh.given() && mesh.size(*axis) != parts)
    return op.emitOpError("is of ")
           << parts << " ranks, but axis '" << op.getAxis() << "' has "
           << mesh.size(*axis);
  return success();
}

LogicalResult VaryOp::verify() { return verifyAxis(*this); }
LogicalResult AllReduceOp::verify() { return verifyAxis(*this); }
LogicalResult AllSliceOp::verify() { return verifyAxis(*this); }
LogicalResult AllGatherOp::verify() { return verifyAxis(*this); }
LogicalResult ReduceScatterOp::verify() { return verifyAxis(*this); }

NN_INFER(VaryOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(AllReduceOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

/// A type of `sizeNow` along the dimension that becomes `sizeThen`.
template <typename Adaptor>
static LogicalResult inferSplit(std::optional<Location> loc, Adaptor adaptor,
                                Value operand, bool slices,
                                SmallVectorImpl<Type> &inferred) {
  auto type = tensorType(operand);
  int64_t dim = adaptor.getDim(), parts = adaptor.getParts(), whole = 0;
  ArrayRef<int64_t> sections = adaptor.getSections();
  if (dim < 0 || dim >= type.getRank())
    return misfit(loc, "dimension ", dim, " is outside of ", type);
  // Equal ones are as many tensors side by side.
  if (sections.empty() ||
      (sections.size() > SHX_MAX_SECTIONS && !llvm::all_equal(sections)))
    return misfit(loc, "has ", sections.size(), " sections, not 1 to ",
                  SHX_MAX_SECTIONS, " or equal ones");
  for (int64_t section : sections) {
    if (parts < 1 || section < 1 || section % parts != 0)
      return misfit(loc, parts, " ranks do not divide a section of ", section);
    whole += section;
  }
  int64_t now = slices ? whole : whole / parts;
  if (type.getDimSize(dim) != now)
    return misfit(loc, "sections of ", whole, " need ", now,
                  " along dimension ", dim, " of ", type);
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = slices ? whole / parts : whole;
  inferred.push_back(type.clone(shape));
  return success();
}

NN_INFER(AllSliceOp) {
  return inferSplit(loc, Adaptor(operands, attributes, properties, regions),
                    operands[0], /*slices=*/true, inferred);
}

NN_INFER(AllGatherOp) {
  return inferSplit(loc, Adaptor(operands, attributes, properties, regions),
                    operands[0], /*slices=*/false, inferred);
}

NN_INFER(ReduceScatterOp) {
  return inferSplit(loc, Adaptor(operands, attributes, properties, regions),
                    operands[0], /*slices=*/true, inferred);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

NN_VJP(VaryOp) {
  operandGrads[0] = AllReduceOp::create(builder, getLoc(), resultGrads[0],
                                        getAxisAttr(), getPartsAttr());
  return success();
}

NN_VJP(AllReduceOp) {
  operandGrads[0] = resultGrads[0];
  return success();
}

NN_VJP(AllSliceOp) {
  operandGrads[0] =
      AllGatherOp::create(builder, getLoc(), resultGrads[0], getAxisAttr(),
                          getPartsAttr(), getDimAttr(), getSectionsAttr());
  return success();
}

NN_VJP(AllGatherOp) {
  if (getVaries())
    operandGrads[0] = ReduceScatterOp::create(builder, getLoc(), resultGrads[0],
                                              getAxisAttr(), getPartsAttr(),
                                              getDimAttr(), getSectionsAttr());
  else
    operandGrads[0] =
        AllSliceOp::create(builder, getLoc(), resultGrads[0], getAxisAttr(),
                           getPartsAttr(), getDimAttr(), getSectionsAttr());
  return success();
}

NN_VJP(ReduceScatterOp) {
  operandGrads[0] =
      AllGatherOp::create(builder, getLoc(), resultGrads[0], getAxisAttr(),
                          getPartsAttr(), getDimAttr(), getSectionsAttr());
  return success();
}

FailureOr<SmallVector<Value>> VaryOp::decompose(OpBuilder &) {
  return SmallVector<Value>{getOperand()};
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(VaryOp) {
  return interpreter.set(getResult(), interpreter.get(getOperand()));
}

static LogicalResult refuseAlone(Operation *op, Interpreter &interpreter) {
  return interpreter.refuse(op, "it is computed by several ranks");
}

NN_EVALUATE(AllReduceOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(AllSliceOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(AllGatherOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(ReduceScatterOp) { return refuseAlone(*this, interpreter); }
