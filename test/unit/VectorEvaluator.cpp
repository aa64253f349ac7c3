// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates the arith and math ops that elementwise nn ops emit, on scalars.

#include "VectorEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace shardonnx;

static double constantValue(arith::ConstantOp op) {
  if (auto value = dyn_cast<FloatAttr>(op.getValue()))
    return value.getValueAsDouble();
  return cast<IntegerAttr>(op.getValue()).getInt();
}

static std::optional<double> compareFloats(arith::CmpFPredicate predicate,
                                           double a, double b) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::UNE:
    return a != b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  default:
    return std::nullopt;
  }
}

static std::optional<double> compareIntegers(arith::CmpIPredicate predicate,
                                             double a, double b) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return a < b;
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return a <= b;
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return a > b;
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return a >= b;
  }
  return std::nullopt;
}

using Result = std::optional<double>;

static Result evaluateUnary(Operation *op, double x) {
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::NegFOp) { return -x; })
      .Case([&](math::ExpOp) { return std::exp(x); })
      .Case([&](math::LogOp) { return std::log(x); })
      .Case([&](math::SqrtOp) { return std::sqrt(x); })
      .Case([&](math::RsqrtOp) { return 1 / std::sqrt(x); })
      .Case([&](math::TanhOp) { return std::tanh(x); })
      .Case([&](math::ErfOp) { return std::erf(x); })
      .Case([&](math::AbsFOp) { return std::fabs(x); })
      .Case([&](math::SinOp) { return std::sin(x); })
      .Case([&](math::CosOp) { return std::cos(x); })
      .Case([&](math::FloorOp) { return std::floor(x); })
      .Case([&](math::CeilOp) { return std::ceil(x); })
      .Case([&](math::RoundEvenOp) { return std::nearbyint(x); })
      .Case<arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp,
            arith::TruncIOp>([&](auto) { return x; })
      .Case([&](arith::FPToSIOp) { return std::trunc(x); })
      .Case([&](arith::BitcastOp cast) -> double {
        if (cast.getType().isF32())
          return llvm::bit_cast<float>(static_cast<int32_t>(x));
        return llvm::bit_cast<int32_t>(static_cast<float>(x));
      })
      .Default(Result());
}

static Result evaluateBinary(Operation *op, double a, double b) {
  return TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return a + b; })
      .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return a - b; })
      .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return a * b; })
      .Case([&](arith::DivFOp) { return a / b; })
      .Case([&](math::PowFOp) { return std::pow(a, b); })
      .Case([&](math::CopySignOp) { return std::copysign(a, b); })
      .Case<arith::RemFOp, arith::RemSIOp>(
          [&](auto) { return std::fmod(a, b); })
      .Case([&](arith::DivSIOp) { return std::trunc(a / b); })
      .Case([&](arith::XOrIOp) { return double(int64_t(a) ^ int64_t(b)); })
      .Case<arith::MaximumFOp, arith::MaxSIOp>(
          [&](auto) { return std::max(a, b); })
      .Case<arith::MinimumFOp, arith::MinSIOp>(
          [&](auto) { return std::min(a, b); })
      .Case([&](arith::AndIOp) { return double(int64_t(a) & int64_t(b)); })
      .Case([&](arith::OrIOp) { return double(a || b); })
      .Case([&](arith::CmpFOp compare) {
        return compareFloats(compare.getPredicate(), a, b);
      })
      .Case([&](arith::CmpIOp compare) {
        return compareIntegers(compare.getPredicate(), a, b);
      })
      .Default(Result());
}

static Result evaluate(Operation *op, ArrayRef<double> x) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return constantValue(constant);
  if (isa<arith::SelectOp>(op))
    return x[0] ? x[1] : x[2];
  if (isa<math::FmaOp>(op))
    return x[0] * x[1] + x[2];
  if (x.size() == 1)
    return evaluateUnary(op, x[0]);
  return x.size() == 2 ? evaluateBinary(op, x[0], x[1]) : Result();
}

std::optional<double> test::evaluateScalars(func::FuncOp function,
                                            ArrayRef<double> arguments) {
  llvm::DenseMap<Value, double> values;
  Block &block = function.getBody().front();
  for (auto [argument, x] : llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = x;
  for (Operation &op : block.without_terminator()) {
    SmallVector<double> x;
    for (Value operand : op.getOperands())
      x.push_back(values.at(operand));
    Result result = evaluate(&op, x);
    if (!result)
      return std::nullopt;
    values[op.getResult(0)] = *result;
  }
  return values.at(block.getTerminator()->getOperand(0));
}
