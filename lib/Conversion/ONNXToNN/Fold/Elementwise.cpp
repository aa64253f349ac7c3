// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of elementwise ONNX ops. Floats are computed in double and rounded
// to the type, which for + - * / and sqrt of f32 is what f32 hardware does.

#include "Unary.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

bool allPresent(HostInputs inputs) {
  return !inputs.empty() && hasInputs(inputs, inputs.size());
}

double negate(double x) { return -x; }
double reciprocal(double x) { return 1 / x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

int64_t negateInt(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}
int64_t absInt(int64_t x) { return x < 0 ? negateInt(x) : x; }
int64_t signInt(int64_t x) { return x < 0 ? -1 : x > 0; }
double signOf(double x) { return std::isnan(x) ? x : x < 0 ? -1 : x > 0; }

/// Neg, Abs and Sign are of signed integers, too.
template <int64_t (*OfInt)(int64_t), double (*OfFloat)(double)>
HostOutputs unaryAny(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  if (inputs[0]->isFloat())
    return unary<OfFloat>(node, inputs);
  Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    // Of unsigned integers only the largest look negative here.
    if (type.isUnsignedInteger() && x[0].i < 0)
      return OfInt == signInt ? ofInt(1) : x[0];
    return ofInt(wrapTo(OfInt(x[0].i), type));
  }));
}

Scalar subtract(Scalar a, Scalar b, Type type) {
  if (isa<FloatType>(type))
    return ofFloat(roundTo(a.f - b.f, type));
  return ofInt(
      wrapTo(static_cast<int64_t>(uint64_t(a.i) - uint64_t(b.i)), type));
}

/// Integers are cut off towards zero; what has no result is 0, as in NumPy.
Scalar divide(Scalar a, Scalar b, Type type) {
  if (isa<FloatType>(type))
    return ofFloat(roundTo(a.f / b.f, type));
  if (b.i == 0)
    return ofInt(0);
  if (type.isUnsignedInteger())
    return ofInt(static_cast<int64_t>(uint64_t(a.i) / uint64_t(b.i)));
  return ofInt(wrapTo(b.i == -1 ? negateInt(a.i) : a.i / b.i, type));
}

using Combination = Scalar (*)(Scalar, Scalar, Type);

template <Combination Function>
std::optional<HostTensor> combine(const HostTensor &a, const HostTensor &b) {
  Type type = a.getElementType();
  if (b.getElementType() != type)
    return std::nullopt;
  if (Function == subtract)
    if (auto difference = HostTensor::indexDifference(a, b))
      return difference;
  return HostTensor::map({a, b}, type, [&](ArrayRef<Scalar> x) {
    return Function(x[0], x[1], type);
  });
}

/// Two operands, or as many as Max, Min and Sum may have.
template <Combination Function>
HostOutputs binary(onnx::NodeOp, HostInputs inputs) {
  if (!allPresent(inputs))
    return std::nullopt;
  std::optional<HostTensor> result = *inputs[0];
  for (const HostTensor *next : inputs.drop_front())
    if (result)
      result = combine<Function>(*result, *next);
  return one(std::move(result));
}

/// By squaring, so that it wraps as products do.
int64_t powerOf(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1)
      result *= square;
  return static_cast<int64_t>(result);
}

/// An exponent may be of another type than its base.
HostOutputs pow(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 2))
    return std::nullopt;
  Type type = inputs[0]->getElementType(), other = inputs[1]->getElementType();
  bool integers = !isa<FloatType>(type) && !isa<FloatType>(other);
  return one(
      HostTensor::map({*inputs[0], *inputs[1]}, type, [&](ArrayRef<Scalar> x) {
        if (integers)
          return ofInt(wrapTo(powerOf(x[0].i, x[1].i), type));
        return scalarOf(std::pow(toDouble(x[0], type), toDouble(x[1], other)),
                        type);
      }));
}

template <bool Less, bool Equal, bool Greater>
HostOutputs comparison(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) ||
      inputs[0]->getElementType() != inputs[1]->getElementType())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  SmallVector<HostTensor, 2> operands = {*inputs[0], *inputs[1]};
  // Indices of rows against those of columns: the difference against 0.
  if (auto difference = HostTensor::indexDifference(operands[0], operands[1]))
    operands = {*difference,
                HostTensor::splat({}, difference->getElementType(), ofInt(0))};
  return one(HostTensor::map(operands, IntegerType::get(node.getContext(), 1),
                             [&](ArrayRef<Scalar> x) {
                               int order = compareScalars(x[0], x[1], type);
                               return ofInt((Less && order == -1) ||
                                            (Equal && order == 0) ||
                                            (Greater && order == 1));
                             }));
}

template <bool (*Function)(bool, bool)>
HostOutputs logic(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2))
    return std::nullopt;
  return one(HostTensor::map({*inputs[0], *inputs[1]},
                             IntegerType::get(node.getContext(), 1),
                             [&](ArrayRef<Scalar> x) {
                               return ofInt(Function(x[0].i != 0, x[1].i != 0));
                             }));
}
bool logicAnd(bool a, bool b) { return a && b; }
bool logicOr(bool a, bool b) { return a || b; }
bool logicXor(bool a, bool b) { return a != b; }

HostOutputs logicNot(onnx::NodeOp, HostInputs inputs) {
  if (!allPresent(inputs))
    return std::nullopt;
  return one(
      HostTensor::map({*inputs[0]}, inputs[0]->getElementType(),
                      [](ArrayRef<Scalar> x) { return ofInt(x[0].i == 0); }));
}

HostOutputs isNaN(onnx::NodeOp node, HostInputs inputs) {
  if (!allPresent(inputs) || !inputs[0]->isFloat())
    return std::nullopt;
  return one(HostTensor::map(
      {*inputs[0]}, IntegerType::get(node.getContext(), 1),
      [](ArrayRef<Scalar> x) { return ofInt(std::isnan(x[0].f)); }));
}

HostOutputs where(onnx::NodeOp, HostInputs inputs) {
  if (!allPresent(inputs) || inputs.size() != 3)
    return std::nullopt;
  return one(HostTensor::map(
      {*inputs[0], *inputs[1], *inputs[2]}, inputs[1]->getElementType(),
      [](ArrayRef<Scalar> x) { return x[0].i ? x[1] : x[2]; }));
}

} // namespace

void addElementwiseEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Neg"] = unaryAny<negateInt, negate>;
  table["Abs"] = unaryAny<absInt, std::fabs>;
  table["Sign"] = unaryAny<signInt, signOf>;
  table["Exp"] = unary<std::exp>;
  table["Log"] = unary<std::log>;
  table["Sqrt"] = unary<std::sqrt>;
  table["Reciprocal"] = unary<reciprocal>;
  table["Sin"] = unary<std::sin>;
  table["Cos"] = unary<std::cos>;
  table["Tanh"] = unary<std::tanh>;
  table["Erf"] = unary<std::erf>;
  table["Sigmoid"] = unary<sigmoid>;
  table["Floor"] = unary<std::floor>;
  table["Ceil"] = unary<std::ceil>;
  table["Add"] = table["Sum"] = binary<addScalars>;
  table["Sub"] = binary<subtract>;
  table["Mul"] = binary<multiplyScalars>;
  table["Div"] = binary<divide>;
  table["Max"] = binary<maxScalar>;
  table["Min"] = binary<minScalar>;
  table["Pow"] = pow;
  table["Less"] = comparison<true, false, false>;
  table["LessOrEqual"] = comparison<true, true, false>;
  table["Equal"] = comparison<false, true, false>;
  table["GreaterOrEqual"] = comparison<false, true, true>;
  table["Greater"] = comparison<false, false, true>;
  table["And"] = logic<logicAnd>;
  table["Or"] = logic<logicOr>;
  table["Xor"] = logic<logicXor>;
  table["Not"] = logicNot;
  table["IsNaN"] = isNaN;
  table["Where"] = where;
}

} // namespace shardonnx
