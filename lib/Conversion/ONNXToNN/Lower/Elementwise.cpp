// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers elementwise ONNX ops.

#include "Cut.h"
#include "Handlers.h"
#include "Positions.h"
#include "mlir/IR/Matchers.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

using namespace mlir;

namespace shardonnx {
namespace {

template <typename Op> LogicalResult unary(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  if (!isFloat(operand))
    return l.unsupported(node, "only of floats");
  l.set(node->getResult(0), l.unary<Op>(operand));
  return success();
}

LogicalResult lowerRelu(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  l.set(node->getResult(0),
        isFloat(operand) ? l.unary<nn::ReluOp>(operand)
                         : l.binary<nn::MaxOp>(
                               operand, l.constant(0, elementType(operand))));
  return success();
}

/// All inputs as operands that together broadcast to the node's full shape.
bool getOperands(Lowering &l, onnx::NodeOp node,
                 SmallVectorImpl<Value> &operands) {
  HostTensor::Dims full, reached;
  for (unsigned i = 0; i < node.getInputs().size(); ++i) {
    Value input = node.getInput(i);
    auto both = broadcastShapes(full, l.getShape(input));
    if (!both)
      return false;
    full = *both;
  }
  for (unsigned i = 0; i < node.getInputs().size(); ++i) {
    operands.push_back(l.getBroadcastable(node.getInput(i)));
    reached = *broadcastShapes(reached, shapeOf(operands.back()));
  }
  if (reached != full)
    operands.front() = l.broadcast(operands.front(), full);
  return true;
}

template <typename Op> LogicalResult binary(Lowering &l, onnx::NodeOp node) {
  SmallVector<Value> operands;
  if (!getOperands(l, node, operands))
    return refuseBroadcast(l, node);
  Value result = operands.front();
  for (Value next : ArrayRef<Value>(operands).drop_front())
    result = l.binary<Op>(result, next);
  l.set(node->getResult(0), result);
  return success();
}

/// Known integers, to the power of integers, or of floats by way of f64.
LogicalResult powOfIntegers(Lowering &l, onnx::NodeOp node, Value base) {
  Type type = elementType(base);
  Value exponent = l.get(node.getInput(1));
  auto shape = broadcastShapes(shapeOf(base), shapeOf(exponent));
  if (!l.interpreting || !shape)
    return l.unsupported(node, "only of floats, or of known integers");
  Type common = isFloat(exponent) ? Type(l.builder.getF64Type()) : type;
  Value power =
      nn::PowOp::create(l.builder, l.loc, RankedTensorType::get(*shape, common),
                        l.cast(base, common), l.cast(exponent, common));
  l.set(node->getResult(0), l.cast(power, type));
  return success();
}

bool isNumber(Value value, double number) {
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         isa<FloatType>(elements.getElementType()) &&
         elements.getSplatValue<APFloat>().convertToDouble() == number;
}

/// max(log x, -100) is half of torch.nn.functional.binary_cross_entropy, whose
/// backward (binary_cross_entropy_backward in ATen) divides by max(x, 1e-12),
/// however small the logarithm is: x over that is what has this gradient, and
/// its value is taken off again.
Value boundedLog(Lowering &l, nn::LogOp log, Value bound) {
  Value x = log.getOperand();
  auto stop = [&](Value value) { return l.unary<nn::StopGradientOp>(value); };
  Value least = l.constant(1e-12, elementType(x));
  Value slope = l.binary<nn::DivOp>(x, stop(l.binary<nn::MaxOp>(x, least)));
  return l.binary<nn::AddOp>(stop(l.binary<nn::MaxOp>(log, bound)),
                             l.sub(slope, stop(slope)));
}

/// A Max or Min as which the exporter has written a clamp by a number.
template <typename Op, nn::ComparePredicate Beyond>
LogicalResult lowerExtremum(Lowering &l, onnx::NodeOp node) {
  if (!node.getNodeAttr("cuts") || node.getInputs().size() != 2)
    return binary<Op>(l, node);
  unsigned place = l.getConstant(node.getInput(0)) ? 0 : 1;
  Value bound = node.getInput(place), x = node.getInput(1 - place);
  auto shape = broadcastShapes(l.getShape(x), l.getShape(bound));
  if (!l.getConstant(bound) || !shape || *shape != l.getShape(x))
    return binary<Op>(l, node);
  l.set(node->getResult(0),
        cutAt(l, Beyond, l.get(x), l.getBroadcastable(bound)));
  return success();
}

LogicalResult lowerMax(Lowering &l, onnx::NodeOp node) {
  if (node.getInputs().size() == 2)
    for (int place : {0, 1}) {
      auto log = l.get(node.getInput(place)).getDefiningOp<nn::LogOp>();
      Value bound = l.get(node.getInput(1 - place));
      if (!log || !isNumber(bound, -100) || l.interpreting)
        continue;
      bound = l.cast(l.getBroadcastable(node.getInput(1 - place)),
                     elementType(log));
      l.set(node->getResult(0), boundedLog(l, log, bound));
      return success();
    }
  return lowerExtremum<nn::MaxOp, nn::ComparePredicate::le>(l, node);
}

LogicalResult lowerPow(Lowering &l, onnx::NodeOp node) {
  Value base = l.get(node.getInput(0));
  if (!isFloat(base))
    return powOfIntegers(l, node, base);
  Value exponent =
      l.cast(l.getBroadcastable(node.getInput(1)), elementType(base));
  auto shape = broadcastShapes(shapeOf(base), l.getShape(node.getInput(1)));
  if (!shape)
    return refuseBroadcast(l, node);
  l.set(node->getResult(0),
        l.binary<nn::PowOp>(l.broadcast(base, *shape), exponent));
  return success();
}

Value compare(Lowering &l, nn::ComparePredicate predicate, Value lhs,
              Value rhs) {
  auto shape = broadcastShapes(shapeOf(lhs), shapeOf(rhs));
  Type type = RankedTensorType::get(*shape, l.builder.getI1Type());
  return nn::CompareOp::create(l.builder, l.loc, type, predicate, lhs, rhs);
}

template <nn::ComparePredicate Predicate>
LogicalResult comparison(Lowering &l, onnx::NodeOp node) {
  SmallVector<Value> operands;
  if (!getOperands(l, node, operands))
    return refuseBroadcast(l, node);
  l.set(node->getResult(0), compare(l, Predicate, operands[0], operands[1]));
  return success();
}

LogicalResult lowerNot(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  Value no = l.constant(0, l.builder.getI1Type());
  l.set(node->getResult(0), compare(l, nn::ComparePredicate::eq, operand, no));
  return success();
}

LogicalResult lowerIsNaN(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  l.set(node->getResult(0),
        compare(l, nn::ComparePredicate::ne, operand, operand));
  return success();
}

LogicalResult lowerWhere(Lowering &l, onnx::NodeOp node) {
  SmallVector<Value> operands;
  if (!getOperands(l, node, operands))
    return refuseBroadcast(l, node);
  HostTensor::Dims shape;
  for (Value operand : operands)
    shape = *broadcastShapes(shape, shapeOf(operand));
  Type type = RankedTensorType::get(shape, elementType(operands[1]));
  l.set(node->getResult(0),
        nn::SelectOp::create(l.builder, l.loc, type, operands[0], operands[1],
                             operands[2]));
  return success();
}

LogicalResult castTo(Lowering &l, onnx::NodeOp node, Type type) {
  if (!type)
    return l.unsupported(node, "to a type other than f32, f16, bf16, int32, "
                               "int64 and bool");
  l.set(node->getResult(0), l.cast(l.get(node.getInput(0)), type));
  return success();
}

LogicalResult lowerCast(Lowering &l, onnx::NodeOp node) {
  return castTo(l, node,
                elementTypeOf(node.getInt("to", 0), node.getContext()));
}

LogicalResult lowerCastLike(Lowering &l, onnx::NodeOp node) {
  auto like = cast<ShapedType>(node.getInputs()[1].getType());
  return castTo(l, node, like.getElementType());
}

LogicalResult lowerIdentity(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  bool stops = node.getNodeAttr("detach") && isFloat(operand);
  l.set(node->getResult(0),
        stops ? l.unary<nn::StopGradientOp>(operand) : operand);
  return success();
}

LogicalResult lowerGelu(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  l.set(node->getResult(0),
        nn::GeluOp::create(l.builder, l.loc, operand.getType(), operand,
                           node.getString("approximate", "none") == "tanh"));
  return success();
}

/// x·sigmoid(alpha·x)
LogicalResult lowerSwish(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  double alpha = node.getFloat("alpha", 1);
  if (alpha == 1) {
    l.set(node->getResult(0), l.unary<nn::SiluOp>(operand));
    return success();
  }
  Value scaled =
      l.binary<nn::MulOp>(operand, l.constant(alpha, elementType(operand)));
  l.set(node->getResult(0),
        l.binary<nn::MulOp>(operand, l.unary<nn::SigmoidOp>(scaled)));
  return success();
}

} // namespace

void addElementwiseHandlers(HandlerTable &table) {
  table["Exp"] = unary<nn::ExpOp>;
  table["Log"] = unary<nn::LogOp>;
  table["Sqrt"] = unary<nn::SqrtOp>;
  table["Reciprocal"] = unary<nn::ReciprocalOp>;
  table["Tanh"] = unary<nn::TanhOp>;
  table["Erf"] = unary<nn::ErfOp>;
  table["Sigmoid"] = unary<nn::SigmoidOp>;
  table["Relu"] = lowerRelu;
  table["Sin"] = unary<nn::SinOp>;
  table["Cos"] = unary<nn::CosOp>;
  table["Add"] = binary<nn::AddOp>;
  table["Sub"] = binary<nn::SubOp>;
  table["Mul"] = binary<nn::MulOp>;
  table["Max"] = lowerMax;
  table["Min"] = lowerExtremum<nn::MinOp, nn::ComparePredicate::ge>;
  table["Sum"] = binary<nn::AddOp>;
  table["Pow"] = lowerPow;
  table["Equal"] = comparison<nn::ComparePredicate::eq>;
  table["Less"] = comparison<nn::ComparePredicate::lt>;
  table["LessOrEqual"] = comparison<nn::ComparePredicate::le>;
  table["Greater"] = comparison<nn::ComparePredicate::gt>;
  table["GreaterOrEqual"] = comparison<nn::ComparePredicate::ge>;
  table["And"] = binary<nn::AndOp>;
  table["Or"] = binary<nn::OrOp>;
  table["BitwiseAnd"] = binary<nn::AndOp>;
  table["BitwiseOr"] = binary<nn::OrOp>;
  table["Not"] = lowerNot;
  table["IsNaN"] = lowerIsNaN;
  table["Where"] = lowerWhere;
  table["Cast"] = lowerCast;
  table["CastLike"] = lowerCastLike;
  table["Identity"] = lowerIdentity;
  table["Gelu"] = lowerGelu;
  table["Swish"] = lowerSwish;
}

} // namespace shardonnx
