// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short spellings for chains of nn ops, and what the op families share.

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

thread_local bool CatchMisfits::active = false;

FailureOr<SmallVector<int64_t>> nn::broadcastShapes(ArrayRef<int64_t> a,
                                                    ArrayRef<int64_t> b) {
  auto shape = HostTensor::broadcastShapes(a, b);
  if (!shape)
    return failure();
  return SmallVector<int64_t>(*shape);
}

bool nn::broadcastsTo(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  FailureOr<SmallVector<int64_t>> shape = broadcastShapes(from, to);
  return succeeded(shape) && ArrayRef<int64_t>(*shape) == to;
}

/// The nn.get that `value` is a view of, the first of several that are joined;
/// null when it is none.
static GetOp viewedParameter(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto get = dyn_cast<GetOp>(op))
      return get;
    if (!isa<CastOp, ReshapeOp, TransposeOp, SliceOp, BroadcastOp, VaryOp>(
            op) &&
        !joinsParameters(op))
      break;
    value = op->getOperand(0);
  }
  return nullptr;
}

bool nn::isParameterView(Value value) {
  return viewedParameter(value) != nullptr;
}

Type nn::reduceType(Operation *op) {
  if (FlatSymbolRefAttr unit = unitOf(op))
    if (auto type = dyn_cast_or_null<TypeAttr>(
            unitSetting(op, unit.getValue(), kReduceDtypeKey)))
      return type.getValue();
  auto module = op->getParentOfType<ModuleOp>();
  auto type =
      module ? module->getAttrOfType<TypeAttr>(kReduceDtypeAttr) : nullptr;
  return type ? type.getValue() : nullptr;
}

Type nn::gradientElementType(Value value) {
  if (GetOp get = viewedParameter(value))
    if (Type type = reduceType(get))
      return type;
  return elementType(value);
}

std::optional<double> nn::getSplat(Attribute attribute) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(attribute);
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getSplatValue<APInt>().getSExtValue();
}

std::optional<double> nn::getSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? getSplat(constant.getValue()) : std::nullopt;
}

std::optional<APInt> nn::getIntegerSplat(Attribute attribute) {
  auto elements = dyn_cast_or_null<DenseElementsAttr>(attribute);
  if (!elements || !elements.isSplat() ||
      !isa<IntegerType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APInt>();
}

static Attribute scalarAttr(OpBuilder &builder, double value, Type type) {
  if (isa<FloatType>(type))
    return builder.getFloatAttr(type, value);
  return builder.getIntegerAttr(type, static_cast<int64_t>(value));
}

Value NNBuilder::constant(double value, Type elementType) {
  return splat(value, RankedTensorType::get({}, elementType));
}

Value NNBuilder::splat(double value, RankedTensorType type) {
  auto elements = DenseElementsAttr::get(
      type, scalarAttr(builder, value, type.getElementType()));
  return ConstantOp::create(builder, loc, type, elements);
}

Value NNBuilder::integer(int64_t value, Type elementType) {
  auto type = RankedTensorType::get({}, elementType);
  return ConstantOp::create(
      builder, loc, type,
      DenseElementsAttr::get(type, builder.getIntegerAttr(elementType, value)));
}

Value NNBuilder::iota(ArrayRef<int64_t> shape, int64_t axis) {
  return IotaOp::create(
      builder, loc, RankedTensorType::get(shape, builder.getI64Type()), axis);
}

Value NNBuilder::cast(Value value, Type type) {
  if (elementType(value) == type)
    return value;
  return CastOp::create(builder, loc, tensorType(value).clone(type), value);
}

void NNBuilder::unify(Value &a, Value &b) {
  if (elementType(a) == elementType(b))
    return;
  bool exact = elementType(a).isF64() || elementType(b).isF64();
  Type wide = exact ? builder.getF64Type() : builder.getF32Type();
  a = cast(a, wide);
  b = cast(b, wide);
}

Value NNBuilder::compare(ComparePredicate predicate, Value a, Value b) {
  unify(a, b);
  return CompareOp::create(builder, loc, predicate, a, b);
}

Value NNBuilder::select(Value condition, Value a, Value b) {
  unify(a, b);
  return SelectOp::create(builder, loc, condition, a, b);
}

Value NNBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(builder, loc, tensorType(value).clone(shape), value);
}

Value NNBuilder::transpose(Value value, ArrayRef<int64_t> permutation) {
  return TransposeOp::create(builder, loc, value, permutation);
}

Value NNBuilder::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return BroadcastOp::create(builder, loc, tensorType(value).clone(shape),
                             value);
}

Value NNBuilder::slice(Value value, int64_t axis, int64_t offset,
                       int64_t size) {
  SmallVector<int64_t> offsets(tensorType(value).getRank(), 0);
  SmallVector<int64_t> sizes(shapeOf(value));
  if (offset == 0 && sizes[axis] == size)
    return value;
  offsets[axis] = offset;
  sizes[axis] = size;
  return SliceOp::create(builder, loc, value, offsets, sizes);
}

Value NNBuilder::sum(Value value, ArrayRef<int64_t> axes, bool keepdims) {
  return ReduceSumOp::create(builder, loc, value, axes, keepdims);
}

Value NNBuilder::rowSum(Value value) {
  return sum(value, {tensorType(value).getRank() - 1});
}

Value NNBuilder::rowMean(Value value) {
  return ReduceMeanOp::create(
      builder, loc, value, ArrayRef<int64_t>(tensorType(value).getRank() - 1),
      /*keepdims=*/true);
}

Value NNBuilder::rowMax(Value value) {
  return ReduceMaxOp::create(builder, loc, value,
                             ArrayRef<int64_t>(tensorType(value).getRank() - 1),
                             /*keepdims=*/true);
}

Value NNBuilder::reduceTo(Value gradient, ArrayRef<int64_t> shape, Type type) {
  ArrayRef<int64_t> from = shapeOf(gradient);
  int64_t lead = from.size() - shape.size();
  SmallVector<int64_t> axes;
  for (int64_t axis = 0, rank = from.size(); axis < rank; ++axis)
    if (axis < lead || (shape[axis - lead] == 1 && from[axis] != 1))
      axes.push_back(axis);
  // The sum is in the wider type of the two.
  if (type.isF32())
    gradient = cast(gradient, type);
  if (!axes.empty())
    gradient = sum(gradient, axes, /*keepdims=*/false);
  return reshape(cast(gradient, type), shape);
}
