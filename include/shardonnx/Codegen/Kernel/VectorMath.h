// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Math functions on vectors of f32 in terms of arithmetic. A machine that has
// some of them as instructions overrides those.

#ifndef SHARDONNX_CODEGEN_KERNEL_VECTORMATH_H
#define SHARDONNX_CODEGEN_KERNEL_VECTORMATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace shardonnx::kernels {

/// Arithmetic on vectors of f32 and of their bits.
class VectorMath {
public:
  VectorMath(mlir::OpBuilder &b, mlir::Location loc, mlir::VectorType type)
      : b(b), loc(loc), type(type),
        bitsType(mlir::VectorType::get(type.getShape(), b.getI32Type())) {}
  virtual ~VectorMath() = default;

  /// The value of a math op by what is below; none for an op that needs
  /// nothing.
  virtual mlir::Value expand(mlir::Operation *op);

protected:
  virtual mlir::Value exp(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value sinOrCos(mlir::Value x, bool cosine);
  std::pair<mlir::Value, mlir::Value> reduceLarge(mlir::Value x);
  virtual mlir::Value rsqrt(mlir::Value x) {
    return mlir::arith::DivFOp::create(b, loc, f(1.0f),
                                       mlir::math::SqrtOp::create(b, loc, x));
  }

  virtual mlir::Value divide(mlir::Value x, mlir::Value y) {
    return mlir::arith::DivFOp::create(b, loc, x, y);
  }
  /// e^x where it is neither zero nor infinite.
  virtual mlir::Value expCore(mlir::Value x);

  mlir::Value f(float v) {
    return mlir::arith::ConstantOp::create(
        b, loc, mlir::DenseElementsAttr::get(type, b.getF32FloatAttr(v)));
  }
  mlir::Value i(int32_t v) {
    return mlir::arith::ConstantOp::create(
        b, loc, mlir::DenseElementsAttr::get(bitsType, b.getI32IntegerAttr(v)));
  }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return mlir::math::FmaOp::create(b, loc, x, y, z);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddFOp::create(b, loc, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubFOp::create(b, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulFOp::create(b, loc, x, y);
  }
  mlir::Value bits(mlir::Value x) {
    return mlir::arith::BitcastOp::create(b, loc, bitsType, x);
  }
  mlir::Value fromBits(mlir::Value x) {
    return mlir::arith::BitcastOp::create(b, loc, type, x);
  }
  mlir::Value abs(mlir::Value x) {
    return mlir::math::AbsFOp::create(b, loc, x);
  }
  mlir::Value copySign(mlir::Value x, mlir::Value sign) {
    return mlir::math::CopySignOp::create(b, loc, x, sign);
  }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, loc, mlir::arith::CmpFPredicate::OLT,
                                       x, y);
  }
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, loc, c, x, y);
  }
  /// The smaller or larger, x where x is NaN: one instruction each.
  mlir::Value atMost(mlir::Value x, float v) {
    return select(less(f(v), x), f(v), x);
  }
  mlir::Value atLeast(mlir::Value x, float v) {
    return select(less(x, f(v)), f(v), x);
  }
  /// Horner's rule, the highest power first.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<float> coefficients);
  mlir::Value roundToBits(mlir::Value scaled, mlir::Value &rounded);

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::VectorType type, bitsType;
};

/// The type of an op's one result if it is a vector of f32, else none.
mlir::VectorType floatVectorOf(mlir::Operation *op);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_VECTORMATH_H
