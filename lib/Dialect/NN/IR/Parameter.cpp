// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters, constants, tables, and what a step hands to the outside.

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

LogicalResult ParameterOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("needs a ranked tensor type with a static shape, not ")
           << getType();
  if (getTrainable() && !isa<FloatType>(type.getElementType()))
    return emitOpError("is trainable, so its elements must be floats, not ")
           << type.getElementType();
  return success();
}

/// The parameter that `user` names, whose shape `value` must have.
static FailureOr<ParameterOp> checkUse(Operation *user, FlatSymbolRefAttr name,
                                       Value value,
                                       SymbolTableCollection &symbols) {
  auto parameter =
      symbols.lookupNearestSymbolFrom<ParameterOp>(user, name.getAttr());
  if (!parameter)
    return user->emitOpError("names ") << name << ", which is no nn.parameter";
  auto type = cast<RankedTensorType>(parameter.getType());
  if (type.getShape() != shapeOf(value))
    return user->emitOpError("has ")
           << value.getType() << ", but " << name << " is " << type;
  return parameter;
}

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<ParameterOp> parameter =
      checkUse(*this, getParameterAttr(), getResult(), symbols);
  if (failed(parameter))
    return failure();
  auto type = cast<RankedTensorType>(parameter->getType());
  bool sameKind = isa<FloatType>(type.getElementType()) &&
                  isa<FloatType>(elementType(getResult()));
  if (!sameKind && type != getType())
    return emitOpError("has ")
           << getType() << ", but " << getParameterAttr() << " is " << type;
  return success();
}

LogicalResult GradOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<ParameterOp> parameter =
      checkUse(*this, getParameterAttr(), getValue(), symbols);
  if (failed(parameter))
    return failure();
  if (!parameter->getTrainable())
    return emitOpError("names ")
           << getParameterAttr() << ", which is not trainable";
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult IotaOp::verify() {
  auto type = tensorType(getResult());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= type.getRank())
    return emitOpError("axis ")
           << axis << " is outside rank " << type.getRank();
  if (type.getElementType().isInteger(1))
    return emitOpError("cannot count in i1");
  return success();
}

LogicalResult RotaryTableOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> loc, ValueRange operands,
    DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
    SmallVectorImpl<Type> &inferred) {
  Adaptor adaptor(operands, attributes, properties, regions);
  int64_t length = adaptor.getLength();
  int64_t width = adaptor.getInvFreq().size();
  if (length <= 0 || width == 0)
    return emitOptionalError(loc, "needs a length and frequencies");
  inferred.assign(
      2, RankedTensorType::get({length, width}, Float32Type::get(context)));
  return success();
}

LogicalResult LossOp::verify() {
  if (tensorType(getSum()).getRank() != 0)
    return emitOpError("takes a scalar, not ") << getSum().getType();
  StringRef denominator = getDenominator();
  if (denominator != "labels" && denominator != "elements" &&
      denominator != "batches")
    return emitOpError("denominator must be labels, elements or batches, not ")
           << getDenominatorAttr();
  if (denominator == "labels") {
    auto function = (*this)->getParentOfType<FunctionOpInterface>();
    int64_t argument = getDenominatorArg();
    if (!function || argument < 0 || argument >= function.getNumArguments())
      return emitOpError("denominator_arg ")
             << argument << " is no argument of the function";
    if (!isa<IntegerType>(elementType(function.getArgument(argument))))
      return emitOpError("denominator_arg ")
             << argument << " must hold integer labels";
  }
  if (int64_t(getCount()) < 1 || int64_t(getShift()) < 0)
    return emitOpError("needs a positive count and a shift of 0 or more");
  return success();
}
