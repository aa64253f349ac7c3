// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short spellings for what an elementwise op computes on vectors (or scalars).

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_VECTORBUILDER_H
#define SHARDONNX_LIB_DIALECT_NN_IR_VECTORBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace shardonnx::nn {

/// A constant of the type of a vector or scalar.
inline mlir::Value constantOf(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::Type type, double value) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  mlir::TypedAttr attr = llvm::isa<mlir::FloatType>(element)
                             ? mlir::TypedAttr(b.getFloatAttr(element, value))
                             : mlir::TypedAttr(b.getIntegerAttr(
                                   element, static_cast<int64_t>(value)));
  if (auto shaped = llvm::dyn_cast<mlir::ShapedType>(type))
    attr = mlir::DenseElementsAttr::get(shaped, mlir::Attribute(attr));
  return mlir::arith::ConstantOp::create(b, loc, type, attr);
}

inline bool isFloat(mlir::Value value) {
  return llvm::isa<mlir::FloatType>(
      mlir::getElementTypeOrSelf(value.getType()));
}

/// Float arithmetic on vectors.
struct Vec {
  using Value = mlir::Value;
  using Predicate = mlir::arith::CmpFPredicate;

  Vec(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}
  Value constant(Value like, double value) {
    return constantOf(b, loc, like.getType(), value);
  }
  Value add(Value x, Value y) {
    return mlir::arith::AddFOp::create(b, loc, x, y);
  }
  Value sub(Value x, Value y) {
    return mlir::arith::SubFOp::create(b, loc, x, y);
  }
  Value mul(Value x, Value y) {
    return mlir::arith::MulFOp::create(b, loc, x, y);
  }
  Value div(Value x, Value y) {
    return mlir::arith::DivFOp::create(b, loc, x, y);
  }
  Value add(Value x, double y) { return add(x, constant(x, y)); }
  Value mul(Value x, double y) { return mul(x, constant(x, y)); }
  Value fma(Value x, Value y, double z) { return fma(x, y, constant(x, z)); }
  Value fma(Value x, Value y, Value z) {
    return mlir::math::FmaOp::create(b, loc, x, y, z);
  }
  Value reciprocal(Value x) { return div(constant(x, 1.0), x); }
  Value exp(Value x) { return mlir::math::ExpOp::create(b, loc, x); }
  Value log(Value x) { return mlir::math::LogOp::create(b, loc, x); }
  Value sqrt(Value x) { return mlir::math::SqrtOp::create(b, loc, x); }
  Value tanh(Value x) { return mlir::math::TanhOp::create(b, loc, x); }
  Value erf(Value x) { return mlir::math::ErfOp::create(b, loc, x); }
  Value abs(Value x) { return mlir::math::AbsFOp::create(b, loc, x); }
  Value copySign(Value x, Value sign) {
    return mlir::math::CopySignOp::create(b, loc, x, sign);
  }
  Value neg(Value x) { return mlir::arith::NegFOp::create(b, loc, x); }
  Value sigmoid(Value x) { return reciprocal(add(exp(neg(x)), 1.0)); }
  Value compare(Predicate predicate, Value x, Value y) {
    return mlir::arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  Value less(Value x, double y) {
    return compare(Predicate::OLT, x, constant(x, y));
  }
  Value greater(Value x, double y) {
    return compare(Predicate::OGT, x, constant(x, y));
  }
  Value select(Value condition, Value x, Value y) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// Horner's rule, the highest power first.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients) {
    Value result = constant(x, coefficients.front());
    for (double c : coefficients.drop_front())
      result = fma(result, x, c);
    return result;
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_VECTORBUILDER_H
