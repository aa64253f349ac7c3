// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clones of ops into a fused body, in the shapes of its domain.

#include "FusedBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fusion;

FusedBuilder::FusedBuilder(OpBuilder &builder, Location loc, nn::FusedKind kind,
                           ArrayRef<int64_t> domain,
                           llvm::function_ref<bool(Operation *)> takes)
    : outside(builder), loc(loc), kind(kind),
      domain(domain.begin(), domain.end()), takes(takes),
      inside(builder.getContext()) {}

/// The domain as an op over `from` sees it: per-row values have no row.
Shape FusedBuilder::targetOf(ArrayRef<int64_t> from) const {
  Shape target = domain;
  if (rowSpaceOf(from).length == 1)
    target.back() = 1;
  return target;
}

Value FusedBuilder::reshapeOutside(Value value, ArrayRef<int64_t> shape) {
  while (nn::shapeOf(value) != shape) {
    auto reshape = value.getDefiningOp<nn::ReshapeOp>();
    if (!reshape)
      return nn::NNBuilder(outside, loc).reshape(value, shape);
    value = reshape.getOperand();
  }
  return value;
}

Value FusedBuilder::input(Value value, const Shape &shape) {
  Value tensor = reshapeOutside(value, shape);
  Value &argument = inputs[{tensor, tensor.getType()}];
  if (!argument)
    argument = body->addArgument(tensor.getType(), loc);
  return argument;
}

/// Counting along an axis of one element gives zeros, whatever domain sees it.
static bool isZero(nn::IotaOp op) {
  return nn::shapeOf(op.getResult())[op.getAxis()] == 1;
}

/// A cheap op is computed again here, if it can be seen from this domain.
bool FusedBuilder::canTakeAlong(Operation *op) const {
  if (!isCheap(op))
    return false;
  ArrayRef<int64_t> from = domainOf(op);
  if (auto iota = dyn_cast<nn::IotaOp>(op))
    return isZero(iota) ||
           convertAxis(iota.getAxis(), from, targetOf(from)).has_value();
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return succeeded(convertShape(nn::shapeOf(operand), from, targetOf(from)));
  });
}

Value FusedBuilder::get(Value value, ArrayRef<int64_t> from) {
  if (Value known = computed.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (op && (takes(op) || canTakeAlong(op))) {
    Value result;
    if (isa<nn::ReshapeOp>(op))
      result = get(op->getOperand(0), nn::shapeOf(op->getOperand(0)));
    else
      result = clone(op);
    return computed[value] = result;
  }
  auto shape = convertShape(nn::shapeOf(value), from, targetOf(from));
  assert(succeeded(shape) && "members were checked to fit the domain");
  return input(value, *shape);
}

Value FusedBuilder::cloneReduction(Operation *op) {
  bool columns = isColumnSum(op);
  Value operand = get(op->getOperand(0), domainOf(op));
  // A sum of columns whose operand does not vary along some axis needs to see
  // all of them.
  if (nn::shapeOf(operand) != ArrayRef<int64_t>(domain))
    operand = nn::BroadcastOp::create(
        inside, op->getLoc(),
        nn::tensorType(operand).clone(ArrayRef<int64_t>(domain)), operand);
  int64_t last = domain.size() - 1;
  Shape shape = domain;
  shape.back() = 1;
  SmallVector<int64_t> axes{last};
  if (columns) {
    shape.assign({domain.back()});
    axes = llvm::to_vector(llvm::seq<int64_t>(0, last));
  }
  Operation *copy = inside.clone(*op);
  copy->setOperand(0, operand);
  copy->setAttr("axes", inside.getDenseI64ArrayAttr(axes));
  copy->getResult(0).setType(
      nn::tensorType(op->getResult(0)).clone(ArrayRef<int64_t>(shape)));
  return copy->getResult(0);
}

Value FusedBuilder::clone(Operation *op) {
  if (nn::isReduction(op))
    return cloneReduction(op);
  ArrayRef<int64_t> from = domainOf(op);
  auto type = nn::tensorType(op->getResult(0));
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    auto elements = cast<DenseElementsAttr>(constant.getValue());
    return nn::ConstantOp::create(
        inside, op->getLoc(), scalar,
        DenseElementsAttr::get(scalar, elements.getSplatValue<Attribute>()));
  }
  if (auto iota = dyn_cast<nn::IotaOp>(op); iota && isZero(iota))
    return nn::NNBuilder(inside, op->getLoc())
        .constant(0, type.getElementType());
  SmallVector<Value> operands;
  SmallVector<int64_t> shape;
  for (Value operand : op->getOperands()) {
    operands.push_back(get(operand, from));
    shape = *nn::broadcastShapes(shape, nn::shapeOf(operands.back()));
  }
  if (isa<nn::BroadcastOp, nn::IotaOp>(op)) {
    auto target = convertShape(type.getShape(), from, targetOf(from));
    // One element that is spread over other rows than these stays one.
    if (failed(target))
      return operands[0];
    shape.assign(target->begin(), target->end());
  }
  // One that only adds or drops axes of size one in front is no op here.
  if (isa<nn::BroadcastOp>(op) &&
      ShapedType::getNumElements(nn::shapeOf(operands[0])) ==
          ShapedType::getNumElements(shape))
    return operands[0];
  Operation *copy = inside.clone(*op);
  copy->setOperands(operands);
  // A step has no axis of the domain.
  if (!nn::isTensorStep(op))
    copy->getResult(0).setType(type.clone(ArrayRef(shape)));
  if (auto iota = dyn_cast<nn::IotaOp>(op)) {
    int64_t axis = *convertAxis(iota.getAxis(), from, targetOf(from));
    int64_t dropped = domain.size() - shape.size();
    copy->setAttr("axis", inside.getI64IntegerAttr(axis - dropped));
  }
  return copy->getResult(0);
}

/// A root in its whole shape: in the body, constants have no axes, so that what
/// is made of them alone, or of them and of a smaller operand, has less.
Value FusedBuilder::root(Value result) {
  ArrayRef<int64_t> from = domainOf(result.getDefiningOp());
  Value value = get(result, from);
  int64_t elements = nn::tensorType(result).getNumElements();
  if (nn::tensorType(value).getNumElements() == elements)
    return value;
  auto shape = convertShape(nn::shapeOf(result), from, targetOf(from));
  assert(succeeded(shape) && "members were checked to fit the domain");
  return nn::NNBuilder(inside, value.getLoc()).broadcast(value, *shape);
}

SmallVector<Value> FusedBuilder::build(ArrayRef<Value> results,
                                       nn::FusedOp &fused) {
  Region region;
  body = new Block();
  region.push_back(body);
  inside.setInsertionPointToEnd(body);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(root(result));
  nn::YieldOp::create(inside, loc, yielded);
  // The group as a whole has a place.
  body->walk([](nn::PlacedOpInterface op) { op.setPlaceAttr(nullptr); });
  SmallVector<Value> operands;
  for (auto &[key, argument] : inputs)
    operands.push_back(key.first);
  SmallVector<Type> types;
  for (Value value : yielded)
    types.push_back(value.getType());
  fused = nn::FusedOp::create(outside, loc, types, operands, kind, domain);
  fused.getBody().takeBody(region);
  SmallVector<Value> values;
  for (auto [original, value] : llvm::zip_equal(results, fused.getOutputs()))
    values.push_back(
        nn::NNBuilder(outside, loc).reshape(value, nn::shapeOf(original)));
  return values;
}
