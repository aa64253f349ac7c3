// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that change the element type, and only that.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// What an integer is as a float: rounded once, straight to the type.
double floatOf(int64_t value, Type from, Type to) {
  if (from.isUnsignedInteger()) {
    auto bits = static_cast<uint64_t>(value);
    return to.isF32() ? static_cast<double>(static_cast<float>(bits))
                      : static_cast<double>(bits);
  }
  return to.isF32() ? static_cast<double>(static_cast<float>(value))
                    : static_cast<double>(value);
}

/// Cut off towards zero. Out of the range of the type ONNX leaves the result
/// open.
int64_t integerOf(double value, Type to) {
  if (value >= 0x1p63 && value < 0x1p64 && to.isUnsignedInteger(64))
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  if (!(value >= -0x1p63 && value < 0x1p63))
    return 0;
  return wrapTo(static_cast<int64_t>(value), to);
}

Scalar convertScalar(Scalar x, Type from, Type to) {
  bool fromFloat = isa<FloatType>(from);
  if (isa<FloatType>(to))
    return ofFloat(roundTo(fromFloat ? x.f : floatOf(x.i, from, to), to));
  if (to.isInteger(1))
    return ofInt(fromFloat ? x.f != 0 : x.i != 0);
  return ofInt(fromFloat ? integerOf(x.f, to) : wrapTo(x.i, to));
}

HostOutputs castTo(const HostTensor &tensor, Type to) {
  if (!to)
    return std::nullopt;
  Type from = tensor.getElementType();
  if (from == to)
    return one(tensor);
  return one(HostTensor::map({tensor}, to, [&](ArrayRef<Scalar> x) {
    return convertScalar(x[0], from, to);
  }));
}

HostOutputs castNode(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  return castTo(*inputs[0],
                elementTypeOf(node.getInt("to", 0), node.getContext()));
}

HostOutputs castLike(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs.size() != 2)
    return std::nullopt;
  auto like = dyn_cast<ShapedType>(node.getInputs()[1].getType());
  if (!like)
    return std::nullopt;
  return castTo(*inputs[0], like.getElementType());
}

/// The same bits, read as another type.
HostOutputs bitCast(onnx::NodeOp node, HostInputs inputs) {
  Type to = elementTypeOf(node.getInt("to", 0), node.getContext());
  if (!hasInputs(inputs, 1) || !to)
    return std::nullopt;
  Type from = inputs[0]->getElementType();
  if (from == to)
    return one(*inputs[0]);
  // Booleans are bytes in ONNX, and bits here.
  if (from.isInteger(1) || to.isInteger(1) ||
      from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
    return std::nullopt;
  DenseElementsAttr bits = inputs[0]->toAttr();
  return one(HostTensor::fromAttr(DenseElementsAttr::getFromRawBuffer(
      RankedTensorType::get(inputs[0]->getShape(), to), bits.getRawData())));
}

HostOutputs identity(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  return one(*inputs[0]);
}

} // namespace

void addCastEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Cast"] = castNode;
  table["CastLike"] = castLike;
  table["BitCast"] = bitCast;
  table["Identity"] = identity;
}

} // namespace shardonnx
