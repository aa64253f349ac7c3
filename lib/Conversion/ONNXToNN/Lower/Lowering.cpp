// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the ONNX graph as values of `nn`.

#include "Lowering.h"

#include "CausalMask.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

using namespace mlir;

namespace shardonnx {

const HostTensor *Lowering::getConstant(Value input) {
  if (!input)
    return nullptr;
  Entry &entry = entryOf(input);
  if (!entry.constant && entry.initializer)
    entry.constant = initializers.readConstant(entry.initializer);
  return entry.constant ? &*entry.constant : nullptr;
}

bool Lowering::getInts(Value input, SmallVectorImpl<int64_t> &values) {
  const HostTensor *tensor = getConstant(input);
  if (!tensor || tensor->isFloat())
    return false;
  values = tensor->flattenInts();
  return true;
}

bool Lowering::isTensor(Value input) {
  Entry &entry = entryOf(input);
  return entry.value || entry.initializer || entry.constant;
}

Value Lowering::getBroadcastable(Value input) {
  if (!input)
    throw nn::Misfit{"one that it needs is left out"};
  Entry &entry = entryOf(input);
  if (entry.value)
    return entry.value;
  if (entry.initializer && Initializers::isParameter(entry.initializer))
    return entry.value = initializers.getParameter(*this, entry.initializer);
  const HostTensor *tensor = getConstant(input);
  if (!tensor)
    throw nn::Misfit{"one is no tensor"};
  return constant(*tensor);
}

Value Lowering::get(Value input) {
  Value value = getBroadcastable(input);
  return broadcast(value, getShape(input));
}

ArrayRef<Value> Lowering::getSequence(Value input) {
  return entryOf(input).sequence;
}

ArrayRef<int64_t> Lowering::getShape(Value input) {
  if (!input)
    throw nn::Misfit{"one that it needs is left out"};
  Entry &entry = entryOf(input);
  if (entry.value)
    return shapeOf(entry.value);
  if (entry.constant)
    return entry.constant->getShape();
  auto type = dyn_cast<RankedTensorType>(input.getType());
  if (!type)
    throw nn::Misfit{"one is no tensor"};
  return type.getShape();
}

void Lowering::set(Value output, Value value) { entryOf(output).value = value; }

void Lowering::setConstant(Value output, HostTensor value) {
  entryOf(output).constant = std::move(value);
}

void Lowering::setInitializer(Value output, onnx::InitializerOp initializer) {
  entryOf(output).initializer = initializer;
}

void Lowering::setSequence(Value output, ArrayRef<Value> values) {
  entryOf(output).sequence.assign(values.begin(), values.end());
}

DenseElementsAttr Lowering::elementsOf(const HostTensor &tensor) {
  constexpr int64_t kLarge = 4096;
  if (tensor.getNumElements() < kLarge)
    return tensor.toAttr();
  auto known = llvm::find_if(
      large, [&](const auto &one) { return one.first.isSameView(tensor); });
  if (known == large.end())
    known = large.insert(known, {tensor, tensor.toAttr()});
  return known->second;
}

Value Lowering::constant(const HostTensor &tensor) {
  HostTensor compact = tensor.compact();
  std::optional<CausalTensor> causal = recognizeCausal(compact);
  if (!causal)
    return nn::ConstantOp::create(builder, loc, elementsOf(compact));
  Value mask = buildCausalMask(builder, loc, causal->mask, compact.getRank());
  Type element = compact.getElementType();
  if (element.isInteger(1) && causal->visible.i)
    return mask;
  auto value = [&](Scalar scalar) -> Value {
    return nn::ConstantOp::create(
        builder, loc, HostTensor::splat({}, element, scalar).toAttr());
  };
  Value visible = value(causal->visible), hidden = value(causal->hidden);
  return select(mask, visible, hidden);
}

} // namespace shardonnx
