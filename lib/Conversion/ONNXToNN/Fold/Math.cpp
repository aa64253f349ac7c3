// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of elementwise ONNX ops that masks and position tables seldom
// need: trigonometry, rounding, bits, remainders.

#include "Unary.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

HostOutputs isInf(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat())
    return std::nullopt;
  bool negative = node.getInt("detect_negative", 1),
       positive = node.getInt("detect_positive", 1);
  return one(HostTensor::map(
      {*inputs[0]}, IntegerType::get(node.getContext(), 1),
      [&](ArrayRef<Scalar> x) {
        return ofInt(std::isinf(x[0].f) && (x[0].f < 0 ? negative : positive));
      }));
}

using BinaryBody = llvm::function_ref<Scalar(Scalar, Scalar)>;

HostOutputs mapTwo(HostInputs inputs, BinaryBody body) {
  return one(
      HostTensor::map({*inputs[0], *inputs[1]}, inputs[0]->getElementType(),
                      [&](ArrayRef<Scalar> x) { return body(x[0], x[1]); }));
}

bool areTwoIntegers(HostInputs inputs) {
  return hasInputs(inputs, 2) && !inputs[0]->isFloat() &&
         inputs[0]->getElementType() == inputs[1]->getElementType();
}

/// The remainder with the sign of the divisor.
double floorMod(double a, double b) {
  if (std::isnan(a) || std::isnan(b) || std::isinf(a) || b == 0)
    return std::nan("");
  double rest = std::fmod(a, b);
  if (rest == 0)
    return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/// 0 where there is no remainder, as in NumPy.
int64_t integerMod(int64_t a, int64_t b, bool truncated) {
  if (b == 0 || b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && !truncated && (rest < 0) != (b < 0) ? rest + b : rest;
}

HostOutputs mod(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) ||
      inputs[0]->getElementType() != inputs[1]->getElementType())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  bool truncated = node.getInt("fmod", 0) != 0;
  return mapTwo(inputs, [&](Scalar a, Scalar b) {
    if (isa<FloatType>(type))
      return ofFloat(
          roundTo(truncated ? std::fmod(a.f, b.f) : floorMod(a.f, b.f), type));
    if (type.isUnsignedInteger())
      return ofInt(
          b.i == 0 ? 0 : static_cast<int64_t>(uint64_t(a.i) % uint64_t(b.i)));
    return ofInt(integerMod(a.i, b.i, truncated));
  });
}

/// Shifts by more bits than there are leave what sign extension fills in.
HostOutputs bitShift(onnx::NodeOp node, HostInputs inputs) {
  if (!areTwoIntegers(inputs))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  auto width = static_cast<uint64_t>(type.getIntOrFloatBitWidth());
  StringRef direction = node.getString("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return std::nullopt;
  return mapTwo(inputs, [&](Scalar a, Scalar b) {
    auto amount = static_cast<uint64_t>(b.i);
    bool negative = !type.isUnsignedInteger() && a.i < 0;
    if (amount >= width)
      return ofInt(direction == "RIGHT" && negative ? -1 : 0);
    if (direction == "LEFT")
      return ofInt(wrapTo(static_cast<int64_t>(uint64_t(a.i) << amount), type));
    return ofInt(negative ? a.i >> amount
                          : static_cast<int64_t>(uint64_t(a.i) >> amount));
  });
}

template <int64_t (*Function)(int64_t, int64_t)>
HostOutputs bitwise(onnx::NodeOp, HostInputs inputs) {
  if (!areTwoIntegers(inputs))
    return std::nullopt;
  return mapTwo(inputs,
                [](Scalar a, Scalar b) { return ofInt(Function(a.i, b.i)); });
}
int64_t bitAnd(int64_t a, int64_t b) { return a & b; }
int64_t bitOr(int64_t a, int64_t b) { return a | b; }
int64_t bitXor(int64_t a, int64_t b) { return a ^ b; }

HostOutputs bitwiseNot(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs[0]->isFloat())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    return ofInt(wrapTo(~x[0].i, type));
  }));
}

HostOutputs mean(onnx::NodeOp, HostInputs inputs) {
  if (inputs.empty() || !hasInputs(inputs, inputs.size()) ||
      !inputs[0]->isFloat())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  SmallVector<HostTensor> operands;
  for (const HostTensor *input : inputs)
    operands.push_back(*input);
  return one(HostTensor::map(operands, type, [&](ArrayRef<Scalar> x) {
    double sum = 0;
    for (Scalar item : x)
      sum += item.f;
    return ofFloat(roundTo(sum / static_cast<double>(x.size()), type));
  }));
}

HostOutputs relu(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    return maxScalar(x[0], scalarOf(0, type), type);
  }));
}

/// Where the bounds cross, the upper one holds.
HostOutputs clip(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  const HostTensor *low = inputAt(inputs, 1), *high = inputAt(inputs, 2);
  for (const HostTensor *bound : {low, high})
    if (bound &&
        (bound->getElementType() != type || bound->getNumElements() != 1))
      return std::nullopt;
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    Scalar value = low ? maxScalar(x[0], low->front(), type) : x[0];
    return high ? minScalar(value, high->front(), type) : value;
  }));
}

} // namespace

void addMathEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Tan"] = unary<std::tan>;
  table["Asin"] = unary<std::asin>;
  table["Acos"] = unary<std::acos>;
  table["Atan"] = unary<std::atan>;
  table["Sinh"] = unary<std::sinh>;
  table["Cosh"] = unary<std::cosh>;
  table["Asinh"] = unary<std::asinh>;
  table["Acosh"] = unary<std::acosh>;
  table["Atanh"] = unary<std::atanh>;
  // Halves to even, as the rounding mode is by default.
  table["Round"] = unary<std::nearbyint>;
  table["Relu"] = relu;
  table["Clip"] = clip;
  table["IsInf"] = isInf;
  table["Mod"] = mod;
  table["BitShift"] = bitShift;
  table["BitwiseAnd"] = bitwise<bitAnd>;
  table["BitwiseOr"] = bitwise<bitOr>;
  table["BitwiseXor"] = bitwise<bitXor>;
  table["BitwiseNot"] = bitwiseNot;
  table["Mean"] = mean;
}

} // namespace shardonnx
