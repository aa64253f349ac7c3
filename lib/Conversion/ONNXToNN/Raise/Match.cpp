// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matchers that look through casts, shape ops and the order of operands.

#include "Match.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

std::optional<double> matchSplat(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::BroadcastOp, nn::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  DenseElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)))
    return std::nullopt;
  if (!isa<FloatType>(attr.getElementType()) ||
      !(attr.isSplat() || attr.getNumElements() == 1))
    return std::nullopt;
  APFloat number = *attr.getValues<APFloat>().begin();
  bool lost = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

bool isSplatOf(Value value, double expected) {
  std::optional<double> number = matchSplat(value);
  Type type = elementType(value);
  double tolerance = type.isBF16() ? 1e-2 : type.isF16() ? 1e-3 : 1e-5;
  return number && std::fabs(*number - expected) <=
                       tolerance * std::max(1e-6, std::fabs(expected));
}

Value stripCasts(Value value) {
  while (auto cast = value.getDefiningOp<nn::CastOp>()) {
    if (!isa<FloatType>(elementType(cast.getOperand())) ||
        !isa<FloatType>(elementType(value)))
      break;
    value = cast.getOperand();
  }
  return value;
}

Value stripScale(Value value, double &scale) {
  while (true) {
    if (auto product = matchWithSplat<nn::MulOp>(value)) {
      if (shapeOf(product->first) != shapeOf(value))
        return value;
      scale *= product->second;
      value = product->first;
      continue;
    }
    auto quotient = value.getDefiningOp<nn::DivOp>();
    std::optional<double> by =
        quotient ? matchSplat(quotient.getRhs()) : std::nullopt;
    if (!by || *by == 0 || shapeOf(quotient.getLhs()) != shapeOf(value))
      return value;
    scale /= *by;
    value = quotient.getLhs();
  }
}

Value matchSquare(Value value) {
  if (auto pow = value.getDefiningOp<nn::PowOp>())
    return isSplatOf(pow.getRhs(), 2) ? Value(pow.getLhs()) : Value();
  if (auto mul = value.getDefiningOp<nn::MulOp>())
    return mul.getLhs() == mul.getRhs() ? Value(mul.getLhs()) : Value();
  return {};
}

bool isCube(Value value, Value x) {
  if (auto pow = value.getDefiningOp<nn::PowOp>())
    return pow.getLhs() == x && isSplatOf(pow.getRhs(), 3);
  auto mul = value.getDefiningOp<nn::MulOp>();
  return mul && ((mul.getLhs() == x && matchSquare(mul.getRhs()) == x) ||
                 (mul.getRhs() == x && matchSquare(mul.getLhs()) == x));
}

LogicalResult rewriteInPlace(Operation *op, RewritePatternSet &&patterns) {
  nn::PlaceListener listener;
  return applyPatternsGreedily(op, std::move(patterns),
                               GreedyRewriteConfig().setListener(&listener));
}

} // namespace shardonnx
