// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters, constants, tables, and what a step hands to the outside.

#include "DefineOps.h"
#include "Evaluate.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

void nn::noteUntrained(ModuleOp module, StringRef name, StringRef reason,
                       bool asked) {
  SmallVector<Attribute> list;
  if (auto known = module->getAttrOfType<ArrayAttr>(kUntrainedAttr))
    llvm::append_range(list, known);
  Builder b(module.getContext());
  StringAttr nameAttr = b.getStringAttr(name);
  for (Attribute other : list)
    if (cast<DictionaryAttr>(other).get("name") == nameAttr)
      return;
  NamedAttrList entry;
  entry.set("name", nameAttr);
  entry.set("reason", b.getStringAttr(reason));
  if (asked)
    entry.set("asked", b.getUnitAttr());
  list.push_back(entry.getDictionary(module.getContext()));
  module->setAttr(kUntrainedAttr, b.getArrayAttr(list));
}

bool nn::acceptUntrained(ModuleOp module,
                         llvm::function_ref<bool(StringRef)> isAsked,
                         StringRef reason, bool written) {
  auto known = module->getAttrOfType<ArrayAttr>(kUntrainedAttr);
  if (!known)
    return false;
  Builder b(module.getContext());
  bool any = false;
  SmallVector<Attribute> list;
  for (auto entry : known.getAsRange<DictionaryAttr>()) {
    NamedAttrList changed(entry);
    if ((written || !entry.contains(kReadByKey)) &&
        isAsked(entry.getAs<StringAttr>("name"))) {
      any = true;
      changed.set("reason", b.getStringAttr(reason));
      changed.set("asked", b.getUnitAttr());
      changed.erase("lost");
    }
    list.push_back(changed.getDictionary(module.getContext()));
  }
  module->setAttr(kUntrainedAttr, b.getArrayAttr(list));
  return any;
}

void nn::noteLoss(ModuleOp module, StringRef loss) {
  auto known = module->getAttrOfType<ArrayAttr>(kUntrainedAttr);
  if (!known)
    return;
  SmallVector<Attribute> list;
  for (auto entry : known.getAsRange<DictionaryAttr>()) {
    NamedAttrList changed(entry);
    if (auto outputs = entry.getAs<ArrayAttr>(kReadByKey);
        outputs &&
        !llvm::is_contained(outputs.getAsValueRange<StringAttr>(), loss))
      changed.erase("lost");
    list.push_back(changed.getDictionary(module.getContext()));
  }
  module->setAttr(kUntrainedAttr, ArrayAttr::get(module.getContext(), list));
}

SmallVector<StringRef> nn::namesOf(ParameterOp parameter) {
  SmallVector<StringRef> names = {parameter.getSymName()};
  if (ArrayAttr tied = parameter.getNamesAttr())
    names.assign(llvm::to_vector(tied.getAsValueRange<StringAttr>()));
  return names;
}

bool nn::matchesName(const llvm::Regex &regex, ParameterOp parameter) {
  return llvm::any_of(namesOf(parameter),
                      [&](StringRef name) { return regex.match(name); });
}

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
  auto packed = symbols.lookupNearestSymbolFrom<ParameterOp>(
      *this, getParameterAttr().getAttr());
  if (packed && packingOf(packed)) {
    Type words = typeIn(packed, Float32Type::get(getContext()));
    if (getType() != words)
      return emitOpError("has ") << getType() << ", but " << getParameterAttr()
                                 << " is packed in " << words;
    return success();
  }
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

NN_INFER(RotaryTableOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  int64_t length = adaptor.getLength();
  int64_t width = adaptor.getInvFreq().size();
  if (length <= 0 || width == 0)
    return misfit(loc, "needs a length and frequencies");
  inferred.assign(
      2, RankedTensorType::get({length, width}, Float32Type::get(context)));
  return success();
}

LogicalResult LossOp::verify() {
  if (tensorType(getSum()).getRank() != 0)
    return emitOpError("takes a scalar, not ") << getSum().getType();
  StringRef denominator = getDenominator();
  if (denominator != "labels" && denominator != "elements" &&
      denominator != "sum" && denominator != "batches")
    return emitOpError(
               "denominator must be labels, elements, sum or batches, not ")
           << getDenominatorAttr();
  if (denominator == "labels" || denominator == "sum") {
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

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(GetOp) {
  auto parameter = interpreter.parameters.find(getParameter());
  if (parameter == interpreter.parameters.end())
    return interpreter.refuse(*this, "the value of @" + getParameter() +
                                         " is not given");
  const HostTensor &value = parameter->second;
  Arithmetic from = interpreter.arithmetic(value.getElementType()),
             to = interpreter.arithmetic(getResult());
  auto converted = HostTensor::map(
      {value}, elementType(getResult()),
      [&](ArrayRef<Scalar> x) { return to.convert(x[0], from); });
  if (!converted)
    return interpreter.refuse(*this, "it is too large to be computed");
  return interpreter.set(getResult(), std::move(*converted));
}

NN_EVALUATE(ConstantOp) {
  auto elements = dyn_cast<DenseElementsAttr>(getValue());
  if (!elements)
    return interpreter.refuse(*this, "its elements are not at hand");
  return interpreter.set(getResult(), HostTensor::fromAttr(elements));
}

NN_EVALUATE(IotaOp) {
  auto type = tensorType(getResult());
  int64_t axis = getAxis(), size = type.getDimSize(axis);
  Arithmetic arithmetic = interpreter.arithmetic(getResult());
  if (!interpreter.allowsElements(*this, {size}))
    return failure();
  std::vector<Scalar> values(size);
  for (int64_t i = 0; i < size; ++i)
    values[i] =
        arithmetic.isFloat() ? arithmetic.of(double(i)) : arithmetic.wrap(i);
  HostTensor::Dims stored(type.getRank(), 1);
  stored[axis] = size;
  return interpreter.set(
      getResult(),
      HostTensor::dense(stored, type.getElementType(), std::move(values))
          .broadcast(type.getShape()));
}

NN_EVALUATE(RotaryTableOp) {
  if (!interpreter.allows(*this))
    return failure();
  double scaling = getScaling().convertToDouble();
  std::vector<Scalar> cos, sin;
  forEachIndex(shapeOf(getCos()), [&](ArrayRef<int64_t> index) {
    double angle = double(index[0]) * double(getInvFreq()[index[1]]);
    cos.push_back(ofFloat(scaling * std::cos(angle)));
    sin.push_back(ofFloat(scaling * std::sin(angle)));
  });
  (void)interpreter.set(getCos(), std::move(cos));
  return interpreter.set(getSin(), std::move(sin));
}

NN_EVALUATE(LossScaleOp) {
  return interpreter.set(getResult(), {ofFloat(interpreter.lossScale)});
}

NN_EVALUATE(LossOp) {
  interpreter.loss = interpreter.get(getSum()).front().f;
  return success();
}

NN_EVALUATE(GradOp) {
  interpreter.gradients.insert_or_assign(getParameter(),
                                         interpreter.get(getValue()));
  return success();
}
