// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers activations and other functions of one or two numbers. They are
// written as selections whose unused side stays finite, so that gradients are
// PyTorch's at the seams, too.

#include "Cut.h"
#include "Handlers.h"
#include "Positions.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

using nn::ComparePredicate;
using nn::NNBuilder;

bool isInt(Value value) {
  return isa<IntegerType>(elementType(value)) &&
         !elementType(value).isInteger(1);
}

/// A node of one float operand: `fn` is given it in f32.
template <typename Fn>
LogicalResult ofFloat(Lowering &l, onnx::NodeOp node, Fn fn) {
  Value operand = l.get(node.getInput(0));
  if (!isFloat(operand))
    return l.unsupported(node, "only of floats");
  Value result = fn(l, l.f32(operand));
  l.set(node->getResult(0), l.cast(result, elementType(operand)));
  return success();
}

template <typename Op> LogicalResult function(Lowering &l, onnx::NodeOp node) {
  return ofFloat(l, node, [](NNBuilder &b, Value x) { return b.unary<Op>(x); });
}

Value isPositive(NNBuilder &b, Value x) {
  return b.compare(ComparePredicate::gt, x, b.constant(0, elementType(x)));
}
Value isNegative(NNBuilder &b, Value x) {
  return b.compare(ComparePredicate::lt, x, b.constant(0, elementType(x)));
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// scale·(x above zero, alpha·(e^(x/divisor) - 1) up to it)
Value exponentialUnit(NNBuilder &b, Value x, double alpha, double divisor,
                      double scale) {
  Value positive = isPositive(b, x);
  Value low = b.select(positive, b.constant(0), x);
  Value curve = b.unary<nn::Expm1Op>(b.mul(low, 1.0 / divisor));
  return b.select(positive, b.mul(x, scale), b.mul(curve, alpha * scale));
}

LogicalResult lowerElu(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 1);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return exponentialUnit(b, x, alpha, 1, 1);
  });
}

LogicalResult lowerSelu(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 1.67326319217681884765625);
  double gamma = node.getFloat("gamma", 1.05070102214813232421875);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return exponentialUnit(b, x, alpha, 1, gamma);
  });
}

LogicalResult lowerCelu(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 1);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return exponentialUnit(b, x, alpha, alpha, 1);
  });
}

LogicalResult lowerLeakyRelu(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 0.01);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return b.select(isPositive(b, x), x, b.mul(x, alpha));
  });
}

LogicalResult lowerPRelu(Lowering &l, onnx::NodeOp node) {
  if (!nn::broadcastsTo(l.getShape(node.getInput(1)),
                        l.getShape(node.getInput(0))))
    return l.unsupported(node, "its slope does not broadcast");
  Value slope = l.get(node.getInput(1));
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return b.select(isPositive(b, x), x, b.mul(x, b.f32(slope)));
  });
}

LogicalResult lowerThresholdedRelu(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 1);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    Value above = b.compare(ComparePredicate::gt, x, b.constant(alpha));
    return b.select(above, x, b.constant(0));
  });
}

/// alpha·x + beta within [0, 1], gradient 0 where it is cut off.
Value hardSigmoid(NNBuilder &b, Value x, double alpha, double beta) {
  Value y = b.add(b.mul(x, alpha), beta);
  Value zero = b.constant(0), one = b.constant(1);
  Value low = b.compare(ComparePredicate::le, y, zero);
  Value high = b.compare(ComparePredicate::ge, y, one);
  return b.select(high, one, b.select(low, zero, y));
}

LogicalResult lowerHardSigmoid(Lowering &l, onnx::NodeOp node) {
  double alpha = node.getFloat("alpha", 0.2);
  double beta = node.getFloat("beta", 0.5);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    return hardSigmoid(b, x, alpha, beta);
  });
}

LogicalResult lowerHardSwish(Lowering &l, onnx::NodeOp node) {
  return ofFloat(l, node, [](NNBuilder &b, Value x) {
    return b.mul(x, hardSigmoid(b, x, 1.0 / 6, 0.5));
  });
}

LogicalResult lowerMish(Lowering &l, onnx::NodeOp node) {
  return ofFloat(l, node, [](NNBuilder &b, Value x) {
    return b.mul(x, b.unary<nn::TanhOp>(b.unary<nn::SoftplusOp>(x)));
  });
}

LogicalResult lowerSoftsign(Lowering &l, onnx::NodeOp node) {
  return ofFloat(l, node, [](NNBuilder &b, Value x) {
    return b.div(x, b.add(b.unary<nn::AbsOp>(x), 1));
  });
}

LogicalResult lowerShrink(Lowering &l, onnx::NodeOp node) {
  double bias = node.getFloat("bias", 0), lambd = node.getFloat("lambd", 0.5);
  return ofFloat(l, node, [&](NNBuilder &b, Value x) {
    Value low = b.compare(ComparePredicate::lt, x, b.constant(-lambd));
    Value high = b.compare(ComparePredicate::gt, x, b.constant(lambd));
    Value inner = b.select(high, b.add(x, -bias), b.constant(0));
    return b.select(low, b.add(x, bias), inner);
  });
}

/// Bounds that are tensors share the gradient with what ties with them, as
/// torch.clamp by tensors and torch.minimum have it: those that are computed,
/// and those of which the exporter says it (`ties`). Bounds that were
/// attributes, before opset 11, have been made f32 whatever the operand is.
LogicalResult lowerClip(Lowering &l, onnx::NodeOp node) {
  Value result = l.get(node.getInput(0));
  Type type = elementType(result);
  auto bound = [&](unsigned place) -> std::pair<Value, bool> {
    Value input = node.getInput(place);
    if (!input)
      return {};
    bool isNumber = l.getConstant(input) && !node.getNodeAttr("ties");
    return {l.cast(l.getBroadcastable(input), type), isNumber};
  };
  if (auto [low, isNumber] = bound(1); low)
    result = isNumber ? cutAt(l, ComparePredicate::le, result, low)
                      : l.binary<nn::MaxOp>(result, low);
  if (auto [high, isNumber] = bound(2); high)
    result = isNumber ? cutAt(l, ComparePredicate::ge, result, high)
                      : l.binary<nn::MinOp>(result, high);
  l.set(node->getResult(0), result);
  return success();
}

//===----------------------------------------------------------------------===//
// Signs and classes of numbers
//===----------------------------------------------------------------------===//

LogicalResult lowerNeg(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  l.set(node->getResult(0), isFloat(x)
                                ? l.unary<nn::NegOp>(x)
                                : l.sub(l.constant(0, elementType(x)), x));
  return success();
}

LogicalResult lowerAbs(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  if (isFloat(x)) {
    l.set(node->getResult(0), l.unary<nn::AbsOp>(x));
    return success();
  }
  Value negated = l.sub(l.constant(0, elementType(x)), x);
  l.set(node->getResult(0), l.select(isNegative(l, x), negated, x));
  return success();
}

LogicalResult lowerSign(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  Type type = elementType(x);
  if (isFloat(x)) {
    l.set(node->getResult(0), l.unary<nn::SignOp>(x));
    return success();
  }
  Value rest = l.select(isNegative(l, x), l.constant(-1, type), x);
  l.set(node->getResult(0),
        l.select(isPositive(l, x), l.constant(1, type), rest));
  return success();
}

LogicalResult lowerIsInf(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  bool positive = node.getInt("detect_positive", 1) != 0;
  bool negative = node.getInt("detect_negative", 1) != 0;
  if (!isFloat(x))
    return l.unsupported(node, "only of floats");
  double infinity = std::numeric_limits<double>::infinity();
  Type type = elementType(x);
  if (positive && negative)
    x = l.unary<nn::AbsOp>(x);
  Value result =
      positive || negative
          ? l.compare(ComparePredicate::eq, x,
                      l.constant(positive ? infinity : -infinity, type))
          : l.constant(0, l.builder.getI1Type(), shapeOf(x));
  l.set(node->getResult(0), result);
  return success();
}

//===----------------------------------------------------------------------===//
// Functions of several numbers
//===----------------------------------------------------------------------===//

/// Two operands that together broadcast to the node's full shape; false, and
/// the node is refused, where they do not.
bool getPair(Lowering &l, onnx::NodeOp node, Value &lhs, Value &rhs) {
  auto full = broadcastShapes(l.getShape(node.getInput(0)),
                              l.getShape(node.getInput(1)));
  if (!full) {
    (void)refuseBroadcast(l, node);
    return false;
  }
  lhs = l.getBroadcastable(node.getInput(0));
  rhs = l.getBroadcastable(node.getInput(1));
  if (*broadcastShapes(shapeOf(lhs), shapeOf(rhs)) != *full)
    lhs = l.broadcast(lhs, *full);
  return true;
}

LogicalResult lowerDiv(Lowering &l, onnx::NodeOp node) {
  Value lhs, rhs;
  if (!getPair(l, node, lhs, rhs))
    return failure();
  if (!isFloat(lhs) && !isInt(lhs))
    return l.unsupported(node, "only of floats and integers");
  l.set(node->getResult(0), isFloat(lhs) ? l.binary<nn::DivOp>(lhs, rhs)
                                         : l.binary<nn::QuotientOp>(lhs, rhs));
  return success();
}

/// What floats leave, with the sign of the divisor: one divisor more where
/// C's fmod has the other sign.
Value floorMod(Lowering &l, Value lhs, Value rhs) {
  Value rest =
      nn::RemainderOp::create(l.builder, l.loc, lhs, rhs, /*floor=*/false);
  Value zero = l.constant(0, elementType(rest));
  Value differs =
      l.compare(ComparePredicate::ne, isNegative(l, rest), isNegative(l, rhs));
  Value isRest = l.compare(ComparePredicate::ne, rest, zero);
  Value moved = l.select(differs, l.add(rest, rhs), rest);
  return l.select(isRest, moved, rest);
}

LogicalResult lowerMod(Lowering &l, onnx::NodeOp node) {
  bool fmod = node.getInt("fmod", 0) != 0;
  Value lhs, rhs;
  if (!getPair(l, node, lhs, rhs))
    return failure();
  if (!isFloat(lhs) && !isInt(lhs))
    return l.unsupported(node, "only of floats and integers");
  l.set(node->getResult(0),
        isFloat(lhs) && !fmod
            ? floorMod(l, lhs, rhs)
            : nn::RemainderOp::create(l.builder, l.loc, lhs, rhs, !fmod)
                  .getResult());
  return success();
}

LogicalResult lowerXor(Lowering &l, onnx::NodeOp node) {
  Value lhs, rhs;
  if (!getPair(l, node, lhs, rhs))
    return failure();
  l.set(node->getResult(0), l.compare(ComparePredicate::ne, lhs, rhs));
  return success();
}

/// What either has and not both: a ∨ b - a ∧ b.
LogicalResult lowerBitwiseXor(Lowering &l, onnx::NodeOp node) {
  Value lhs, rhs;
  if (!getPair(l, node, lhs, rhs))
    return failure();
  l.set(node->getResult(0),
        l.sub(l.binary<nn::OrOp>(lhs, rhs), l.binary<nn::AndOp>(lhs, rhs)));
  return success();
}

/// Of two's complement: -1 - x.
LogicalResult lowerBitwiseNot(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  Value ones = l.integer(-1, elementType(operand));
  l.set(node->getResult(0), l.sub(ones, operand));
  return success();
}

LogicalResult lowerMean(Lowering &l, onnx::NodeOp node) {
  unsigned count = node.getInputs().size();
  Value sum;
  for (unsigned i = 0; i < count; ++i) {
    Value next = l.get(node.getInput(i));
    if (sum && !broadcastShapes(shapeOf(sum), shapeOf(next)))
      return refuseBroadcast(l, node);
    if (!isFloat(next))
      return l.unsupported(node, "only of floats");
    sum = sum ? l.add(sum, l.f32(next)) : l.f32(next);
  }
  auto type = cast<ShapedType>(node->getResult(0).getType());
  l.set(node->getResult(0),
        l.cast(l.mul(sum, 1.0 / count), type.getElementType()));
  return success();
}

} // namespace

void addMathHandlers(HandlerTable &table) {
  table["Floor"] = function<nn::FloorOp>;
  table["Ceil"] = function<nn::CeilOp>;
  table["Round"] = function<nn::RoundOp>;
  table["Tan"] = function<nn::TanOp>;
  table["Asin"] = function<nn::AsinOp>;
  table["Acos"] = function<nn::AcosOp>;
  table["Atan"] = function<nn::AtanOp>;
  table["Sinh"] = function<nn::SinhOp>;
  table["Cosh"] = function<nn::CoshOp>;
  table["Asinh"] = function<nn::AsinhOp>;
  table["Acosh"] = function<nn::AcoshOp>;
  table["Atanh"] = function<nn::AtanhOp>;
  table["Softplus"] = function<nn::SoftplusOp>;
  table["Elu"] = lowerElu;
  table["Selu"] = lowerSelu;
  table["Celu"] = lowerCelu;
  table["LeakyRelu"] = lowerLeakyRelu;
  table["PRelu"] = lowerPRelu;
  table["ThresholdedRelu"] = lowerThresholdedRelu;
  table["HardSigmoid"] = lowerHardSigmoid;
  table["HardSwish"] = lowerHardSwish;
  table["Mish"] = lowerMish;
  table["Softsign"] = lowerSoftsign;
  table["Shrink"] = lowerShrink;
  table["Clip"] = lowerClip;
  table["Neg"] = lowerNeg;
  table["Abs"] = lowerAbs;
  table["Sign"] = lowerSign;
  table["IsInf"] = lowerIsInf;
  table["Div"] = lowerDiv;
  table["Mod"] = lowerMod;
  table["Xor"] = lowerXor;
  table["BitwiseXor"] = lowerBitwiseXor;
  table["BitwiseNot"] = lowerBitwiseNot;
  table["Mean"] = lowerMean;
}

} // namespace shardonnx
