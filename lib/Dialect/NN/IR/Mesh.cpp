// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops between the ranks of an axis: shape rules, verifiers, gradients; and the
// mesh as modules and parameters have it.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
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

int64_t nn::nearestDivisor(int64_t count, int64_t parts) {
  int64_t nearest = 1;
  for (int64_t ranks = 1; ranks <= count; ++ranks)
    if (count % ranks == 0 &&
        std::abs(ranks - parts) <= std::abs(nearest - parts))
      nearest = ranks;
  return nearest;
}

bool nn::isCollective(Operation *op) {
  return isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp, PartShiftOp,
             RingAttentionOp, RingAttentionGradOp, LinearCrossEntropyPartOp,
             LinearCrossEntropyPartGradOp>(op);
}

//===----------------------------------------------------------------------===//
// Verifiers, shape rules
//===----------------------------------------------------------------------===//

LogicalResult nn::verifyAxis(Operation *op, StringRef name, int64_t parts) {
  std::optional<MeshAxis> axis = parseSpelling<MeshAxis>(name);
  if (!axis)
    return op->emitOpError("is of an axis '") << name << "', which no mesh has";
  if (parts < 2)
    return op->emitOpError("needs an axis of several ranks, not of ") << parts;
  Mesh mesh = meshOf(op);
  if (mesh.given() && mesh.size(*axis) != parts)
    return op->emitOpError("is of ") << parts << " ranks, but axis '" << name
                                     << "' has " << mesh.size(*axis);
  return success();
}

LogicalResult VaryOp::verify() { return verifyAxis(*this); }
LogicalResult AllReduceOp::verify() { return verifyAxis(*this); }
LogicalResult AllSliceOp::verify() { return verifyAxis(*this); }
LogicalResult AllGatherOp::verify() { return verifyAxis(*this); }
LogicalResult ReduceScatterOp::verify() { return verifyAxis(*this); }

template <typename PartOp> static LogicalResult verifyPart(PartOp op) {
  ArrayRef<int64_t> sections = op.getSections();
  if (op.getZigzag() &&
      (sections.size() % 2 != 0 || !llvm::all_equal(sections)))
    return op.emitOpError("has a zigzag of ")
           << sections.size() << " sections, not of equal pairs";
  if (int64_t(op.getBehind()) < 0 || op.getBehind() >= op.getParts())
    return op.emitOpError("is of a rank ")
           << int64_t(op.getBehind()) << " behind, of " << op.getParts();
  return verifyAxis(op);
}
LogicalResult PartSliceOp::verify() { return verifyPart(*this); }
LogicalResult PartPadOp::verify() { return verifyPart(*this); }
LogicalResult PartShiftOp::verify() {
  if (int64_t(getBehind()) < 1 || getBehind() >= getParts())
    return emitOpError("is of a rank ")
           << int64_t(getBehind()) << " behind, of " << getParts();
  return verifyAxis(*this);
}

LogicalResult PartRollOp::verify() {
  if (getSections().size() != 1)
    return emitOpError("rolls one section, not ") << getSections().size();
  return verifyAxis(*this);
}
LogicalResult AllToAllOp::verify() { return verifyAxis(*this); }

NN_INFER(VaryOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(PartShiftOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(AllReduceOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

namespace {
/// A dimension whose parts ranks have, or are to have.
struct SplitDim {
  int64_t dim, parts;
  ArrayRef<int64_t> sections;
};
} // namespace

/// The type along a dimension of which there is all, if `slices`, and then a
/// part, or the other way round.
static FailureOr<RankedTensorType> splitType(std::optional<Location> loc,
                                             RankedTensorType type,
                                             const SplitDim &split,
                                             bool slices) {
  auto [dim, parts, sections] = split;
  int64_t whole = 0;
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
  return type.clone(shape);
}

template <typename Adaptor>
static LogicalResult inferSplit(std::optional<Location> loc, Adaptor adaptor,
                                Value operand, bool slices,
                                SmallVectorImpl<Type> &inferred) {
  SplitDim split = {int64_t(adaptor.getDim()), int64_t(adaptor.getParts()),
                    adaptor.getSections()};
  auto type = splitType(loc, tensorType(operand), split, slices);
  if (failed(type))
    return failure();
  inferred.push_back(*type);
  return success();
}

#define NN_SPLIT_INFER(OP, SLICES)                                             \
  NN_INFER(OP) {                                                               \
    return inferSplit(loc, Adaptor(operands, attributes, properties, regions), \
                      operands[0], SLICES, inferred);                          \
  }
NN_SPLIT_INFER(AllSliceOp, true)
NN_SPLIT_INFER(AllGatherOp, false)
NN_SPLIT_INFER(ReduceScatterOp, true)
NN_SPLIT_INFER(PartSliceOp, true)
NN_SPLIT_INFER(PartPadOp, false)

// As of what is gathered of slices.
NN_INFER(PartRollOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  SmallVector<Type> slice;
  if (failed(inferSplit(loc, adaptor, operands[0], /*slices=*/true, slice)))
    return failure();
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(AllToAllOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto parts = int64_t(adaptor.getParts());
  SplitDim split = {int64_t(adaptor.getSplitDim()), parts,
                    adaptor.getSplitSections()};
  SplitDim join = {int64_t(adaptor.getJoinDim()), parts,
                   adaptor.getJoinSections()};
  if (split.dim == join.dim)
    return misfit(loc, "splits and joins one dimension, ", split.dim);
  auto joined = splitType(loc, tensorType(operands[0]), join, /*slices=*/false);
  if (failed(joined))
    return failure();
  auto type = splitType(loc, *joined, split, /*slices=*/true);
  if (failed(type))
    return failure();
  inferred.push_back(*type);
  return success();
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

#define NN_SPLIT_VJP(OP, BACK)                                                 \
  NN_VJP(OP) {                                                                 \
    operandGrads[0] =                                                          \
        BACK::create(builder, getLoc(), resultGrads[0], getAxisAttr(),         \
                     getPartsAttr(), getDimAttr(), getSectionsAttr());         \
    return success();                                                          \
  }
NN_SPLIT_VJP(AllSliceOp, AllGatherOp)
NN_SPLIT_VJP(ReduceScatterOp, AllGatherOp)

#define NN_PART_VJP(OP, BACK)                                                  \
  NN_VJP(OP) {                                                                 \
    operandGrads[0] = BACK::create(                                            \
        builder, getLoc(), resultGrads[0], getAxisAttr(), getPartsAttr(),      \
        getDimAttr(), getSectionsAttr(), getZigzagAttr(), getBehindAttr());    \
    return success();                                                          \
  }
NN_PART_VJP(PartSliceOp, PartPadOp)
NN_PART_VJP(PartPadOp, PartSliceOp)

NN_VJP(PartShiftOp) {
  operandGrads[0] =
      PartShiftOp::create(builder, getLoc(), resultGrads[0], getAxis(),
                          getParts(), getParts() - getBehind());
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

NN_VJP(PartRollOp) {
  operandGrads[0] = PartRollOp::create(
      builder, getLoc(), resultGrads[0], getAxis(), getParts(), getDim(),
      getSections(), /*inverse=*/!getInverse());
  return success();
}

NN_VJP(AllToAllOp) {
  operandGrads[0] = AllToAllOp::create(
      builder, getLoc(), resultGrads[0], getAxisAttr(), getPartsAttr(),
      getJoinDimAttr(), getJoinSectionsAttr(), getSplitDimAttr(),
      getSplitSectionsAttr());
  return success();
}

FailureOr<SmallVector<Value>> VaryOp::decompose(OpBuilder &) {
  return SmallVector<Value>{getOperand()};
}

//===----------------------------------------------------------------------===//
// On another axis of the mesh
//===----------------------------------------------------------------------===//

// A dimension that is split over an axis already may be over another one, too,
// where it consists of as many sections as that has ranks: each has its part of
// one of them (heads, split over context and tensor).
static LogicalResult checkSections(ArrayRef<int64_t> sections,
                                   const Sharding &given,
                                   ShardingQuery &query) {
  if (given.sections.size() != 1 || int64_t(sections.size()) != query.parts ||
      !llvm::all_equal(sections))
    return query.refuse("what is split is split over another axis, too");
  return success();
}

namespace {
struct ShardablePartSlice : ShardableModel<ShardablePartSlice, PartSliceOp> {
  static LogicalResult rule(PartSliceOp op, ShardingQuery &query);
  void makeLocal(Operation *op, const ShardingQuery &query) const;
};
struct ShardableAllToAll : ShardableModel<ShardableAllToAll, AllToAllOp> {
  static LogicalResult rule(AllToAllOp op, ShardingQuery &query);
  void makeLocal(Operation *op, const ShardingQuery &query) const;
};
} // namespace

LogicalResult ShardablePartSlice::rule(PartSliceOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  query.needed[0] = query.results[0] = given;
  if (given.dim != int64_t(op.getDim()))
    return success();
  query.results[0] =
      Sharding::split(given.dim, given.size() / int64_t(op.getParts()));
  return checkSections(op.getSections(), given, query);
}

void ShardablePartSlice::makeLocal(Operation *op,
                                   const ShardingQuery &query) const {
  auto slice = cast<PartSliceOp>(op);
  if (query.operands[0].dim == int64_t(slice.getDim()))
    slice.setSections(slice.getSections().take_front());
}

LogicalResult ShardableAllToAll::rule(AllToAllOp op, ShardingQuery &query) {
  const Sharding &given = query.operands[0];
  auto parts = int64_t(op.getParts());
  query.needed[0] = query.results[0] = given;
  if (given.dim == int64_t(op.getSplitDim())) {
    query.results[0] = Sharding::split(given.dim, given.size() / parts);
    return checkSections(op.getSplitSections(), given, query);
  }
  if (given.dim == int64_t(op.getJoinDim())) {
    query.results[0] = Sharding::split(given.dim, given.size() * parts);
    return checkSections(op.getJoinSections(), given, query);
  }
  return success();
}

void ShardableAllToAll::makeLocal(Operation *op,
                                  const ShardingQuery &query) const {
  auto exchange = cast<AllToAllOp>(op);
  int64_t dim = query.operands[0].dim;
  if (dim == int64_t(exchange.getSplitDim()))
    exchange.setSplitSections(exchange.getSplitSections().take_front());
  if (dim == int64_t(exchange.getJoinDim()))
    exchange.setJoinSections(exchange.getJoinSections().take_front());
}

/// Of ops that leave the other dimensions as they are.
template <typename Op>
struct ShardableAlong : ShardableModel<ShardableAlong<Op>, Op> {
  static LogicalResult rule(Op op, ShardingQuery &query) {
    const Sharding &given = query.operands[0];
    if (given.dim == int64_t(op.getDim()))
      return query.refuse("what is split is split over another axis, too");
    query.needed[0] = query.results[0] = given;
    return success();
  }
};

void nn::attachMeshShardings(MLIRContext &context) {
  attachSharding<ShardableAlong, AllGatherOp, PartRollOp>(context);
  PartSliceOp::attachInterface<ShardablePartSlice>(context);
  AllToAllOp::attachInterface<ShardableAllToAll>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(VaryOp) {
  return interpreter.set(getResult(), interpreter.get(getOperand()));
}

LogicalResult nn::refuseAlone(Operation *op, Interpreter &interpreter) {
  return interpreter.refuse(op, "it is computed by several ranks");
}

NN_EVALUATE(AllReduceOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(AllSliceOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(AllGatherOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(ReduceScatterOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(PartSliceOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(PartPadOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(PartRollOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(PartShiftOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(AllToAllOp) { return refuseAlone(*this, interpreter); }
