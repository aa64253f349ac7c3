// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that work on the bits of elements.

#include "Evaluate.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// Shifts by more bits than there are leave what sign extension fills in.
HostOutputs bitShift(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[0]->isFloat() ||
      inputs[0]->getElementType() != inputs[1]->getElementType())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  auto width = static_cast<uint64_t>(type.getIntOrFloatBitWidth());
  StringRef direction = node.getString("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return std::nullopt;
  auto shift = [&](ArrayRef<Scalar> x) {
    Scalar a = x[0], b = x[1];
    auto amount = static_cast<uint64_t>(b.i);
    bool negative = !type.isUnsignedInteger() && a.i < 0;
    if (amount >= width)
      return ofInt(direction == "RIGHT" && negative ? -1 : 0);
    if (direction == "LEFT")
      return ofInt(wrapTo(static_cast<int64_t>(uint64_t(a.i) << amount), type));
    return ofInt(negative ? a.i >> amount
                          : static_cast<int64_t>(uint64_t(a.i) >> amount));
  };
  return one(HostTensor::map({*inputs[0], *inputs[1]}, type, shift));
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

} // namespace

void addBitEvaluators(llvm::StringMap<Evaluator> &table) {
  table["BitShift"] = bitShift;
  table["BitCast"] = bitCast;
}

} // namespace shardonnx
