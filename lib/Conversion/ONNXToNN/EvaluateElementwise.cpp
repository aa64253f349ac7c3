// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of elementwise ONNX ops. Floats are computed in double and rounded
// to the type, which for + - * / and sqrt of f32 is what f32 hardware does.

#include "Evaluate.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

Scalar ofInt(int64_t value) {
  Scalar scalar;
  scalar.i = value;
  return scalar;
}

Scalar ofFloat(double value) {
  Scalar scalar;
  scalar.f = value;
  return scalar;
}

HostOutputs one(std::optional<HostTensor> result) {
  if (!result)
    return std::nullopt;
  HostOutputs outputs(std::in_place);
  outputs->push_back(std::move(*result));
  return outputs;
}

bool allPresent(HostInputs inputs) {
  return !inputs.empty() && llvm::all_of(inputs, [](const HostTensor *tensor) {
    return tensor != nullptr;
  });
}

template <double (*Function)(double)>
HostOutputs unary(onnx::NodeOp, HostInputs inputs) {
  if (!allPresent(inputs) || !inputs[0]->isFloat())
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    return ofFloat(roundTo(Function(x[0].f), type));
  }));
}

double negate(double x) { return -x; }
double reciprocal(double x) { return 1 / x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Neg and Abs are of integers, too.
template <int64_t (*OfInt)(int64_t), double (*OfFloat)(double)>
HostOutputs unaryAny(onnx::NodeOp node, HostInputs inputs) {
  if (!allPresent(inputs))
    return std::nullopt;
  if (inputs[0]->isFloat())
    return unary<OfFloat>(node, inputs);
  Type type = inputs[0]->getElementType();
  return one(HostTensor::map({*inputs[0]}, type, [&](ArrayRef<Scalar> x) {
    return ofInt(wrapTo(OfInt(x[0].i), type));
  }));
}

int64_t negateInt(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}
int64_t absInt(int64_t x) { return x < 0 ? negateInt(x) : x; }

int64_t addInt(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) + uint64_t(b));
}
int64_t subInt(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) - uint64_t(b));
}
int64_t mulInt(int64_t a, int64_t b) {
  return static_cast<int64_t>(uint64_t(a) * uint64_t(b));
}
int64_t divInt(int64_t a, int64_t b) {
  return b == 0 || (a == INT64_MIN && b == -1) ? 0 : a / b;
}
int64_t powInt(int64_t a, int64_t b) {
  return static_cast<int64_t>(
      std::pow(static_cast<double>(a), static_cast<double>(b)));
}
int64_t maxInt(int64_t a, int64_t b) { return std::max(a, b); }
int64_t minInt(int64_t a, int64_t b) { return std::min(a, b); }
double addFloat(double a, double b) { return a + b; }
double subFloat(double a, double b) { return a - b; }
double mulFloat(double a, double b) { return a * b; }
double divFloat(double a, double b) { return a / b; }
double powFloat(double a, double b) { return std::pow(a, b); }
double maxFloat(double a, double b) { return std::fmax(a, b); }
double minFloat(double a, double b) { return std::fmin(a, b); }

template <int64_t (*OfInt)(int64_t, int64_t), double (*OfFloat)(double, double)>
std::optional<HostTensor> combine(const HostTensor &a, const HostTensor &b) {
  Type type = a.getElementType();
  if (a.isFloat() != b.isFloat())
    return std::nullopt;
  if (a.isFloat())
    return HostTensor::map({a, b}, type, [&](ArrayRef<Scalar> x) {
      return ofFloat(roundTo(OfFloat(x[0].f, x[1].f), type));
    });
  if (OfInt == subInt)
    if (auto difference = HostTensor::indexDifference(a, b))
      return difference;
  return HostTensor::map({a, b}, type, [&](ArrayRef<Scalar> x) {
    return ofInt(wrapTo(OfInt(x[0].i, x[1].i), type));
  });
}

/// Two operands, or as many as Max and Min may have.
template <int64_t (*OfInt)(int64_t, int64_t), double (*OfFloat)(double, double)>
HostOutputs binary(onnx::NodeOp, HostInputs inputs) {
  if (!allPresent(inputs))
    return std::nullopt;
  std::optional<HostTensor> result = *inputs[0];
  for (const HostTensor *next : inputs.drop_front())
    if (result)
      result = combine<OfInt, OfFloat>(*result, *next);
  return one(std::move(result));
}

/// An exponent may be of another type than its base.
HostOutputs pow(onnx::NodeOp node, HostInputs inputs) {
  if (!allPresent(inputs) || inputs.size() != 2)
    return std::nullopt;
  if (inputs[0]->isFloat() == inputs[1]->isFloat())
    return binary<powInt, powFloat>(node, inputs);
  bool floatBase = inputs[0]->isFloat();
  Type type = inputs[0]->getElementType();
  return one(
      HostTensor::map({*inputs[0], *inputs[1]}, type, [&](ArrayRef<Scalar> x) {
        if (floatBase)
          return ofFloat(
              roundTo(std::pow(x[0].f, static_cast<double>(x[1].i)), type));
        return ofInt(static_cast<int64_t>(
            std::pow(static_cast<double>(x[0].i), x[1].f)));
      }));
}

/// -1, 0 or 1; 2 when a NaN is involved.
int compare(Scalar a, Scalar b, bool isFloat) {
  if (!isFloat)
    return a.i < b.i ? -1 : a.i > b.i;
  if (std::isnan(a.f) || std::isnan(b.f))
    return 2;
  return a.f < b.f ? -1 : a.f > b.f;
}

template <bool Less, bool Equal, bool Greater>
HostOutputs comparison(onnx::NodeOp node, HostInputs inputs) {
  if (!allPresent(inputs) || inputs.size() != 2 ||
      inputs[0]->isFloat() != inputs[1]->isFloat())
    return std::nullopt;
  bool isFloat = inputs[0]->isFloat();
  SmallVector<HostTensor, 2> operands = {*inputs[0], *inputs[1]};
  // Indices of rows against those of columns: the difference against 0.
  if (auto difference = HostTensor::indexDifference(operands[0], operands[1]))
    operands = {*difference,
                HostTensor::splat({}, difference->getElementType(), ofInt(0))};
  return one(HostTensor::map(operands, IntegerType::get(node.getContext(), 1),
                             [&](ArrayRef<Scalar> x) {
                               int order = compare(x[0], x[1], isFloat);
                               return ofInt((Less && order == -1) ||
                                            (Equal && order == 0) ||
                                            (Greater && order == 1));
                             }));
}

template <bool (*Function)(bool, bool)>
HostOutputs logic(onnx::NodeOp node, HostInputs inputs) {
  if (!allPresent(inputs) || inputs.size() != 2)
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

Scalar convertScalar(Scalar x, Type from, Type to) {
  bool fromFloat = isa<FloatType>(from);
  if (isa<FloatType>(to))
    return ofFloat(roundTo(fromFloat ? x.f : static_cast<double>(x.i), to));
  if (to.isInteger(1))
    return ofInt(fromFloat ? x.f != 0 : x.i != 0);
  if (!fromFloat)
    return ofInt(wrapTo(x.i, to));
  // Outside of the range ONNX leaves the result open.
  if (!(x.f > -9.2e18 && x.f < 9.2e18))
    return ofInt(0);
  return ofInt(wrapTo(static_cast<int64_t>(x.f), to));
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
  if (!allPresent(inputs))
    return std::nullopt;
  return castTo(*inputs[0],
                elementTypeOf(node.getInt("to", 0), node.getContext()));
}

HostOutputs castLike(onnx::NodeOp node, HostInputs inputs) {
  auto like = dyn_cast<ShapedType>(node.getInputs()[1].getType());
  if (!inputs[0] || !like)
    return std::nullopt;
  return castTo(*inputs[0], like.getElementType());
}

HostOutputs identity(onnx::NodeOp, HostInputs inputs) {
  if (!inputs[0])
    return std::nullopt;
  return one(*inputs[0]);
}

} // namespace

void addElementwiseEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Neg"] = unaryAny<negateInt, negate>;
  table["Abs"] = unaryAny<absInt, std::fabs>;
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
  table["Add"] = binary<addInt, addFloat>;
  table["Sub"] = binary<subInt, subFloat>;
  table["Mul"] = binary<mulInt, mulFloat>;
  table["Div"] = binary<divInt, divFloat>;
  table["Max"] = binary<maxInt, maxFloat>;
  table["Min"] = binary<minInt, minFloat>;
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
  table["Cast"] = castNode;
  table["CastLike"] = castLike;
  table["Identity"] = identity;
}

} // namespace shardonnx
