// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Short spellings for chains of nn ops, so that a gradient or a decomposition
// reads like its formula.

#ifndef SHARDONNX_DIALECT_NN_IR_NNBUILDER_H
#define SHARDONNX_DIALECT_NN_IR_NNBUILDER_H

#include "shardonnx/Dialect/NN/IR/NN.h"

namespace shardonnx::nn {

/// The tensor type of a value of the nn dialect.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return tensorType(value).getShape();
}
inline int64_t rankOf(mlir::Value value) { return tensorType(value).getRank(); }
inline mlir::Type elementType(mlir::Value value) {
  return tensorType(value).getElementType();
}

/// NumPy's broadcast of two shapes, or failure.
llvm::FailureOr<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// True when `from` broadcasts to exactly `to`.
bool broadcastsTo(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// True when the value is a parameter, or only a view or cast of one. Its
/// gradient goes to the reduction, not to another op.
bool isParameterView(mlir::Value value);

/// The element type that the gradient of `value` is computed in: the module's
/// `nn.reduce_dtype` for a parameter, else the value's own.
mlir::Type gradientElementType(mlir::Value value);

/// The value of a constant whose elements are all equal. An integer beyond 2^53
/// is rounded: what depends on each of its bits asks getIntegerSplat.
std::optional<double> getSplat(mlir::Attribute attribute);
std::optional<double> getSplat(mlir::Value value);
std::optional<llvm::APInt> getIntegerSplat(mlir::Attribute attribute);

/// Builds nn ops at the insertion point of a builder. Where the float types of
/// two operands differ, the narrower is cast first.
class NNBuilder {
public:
  NNBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value constant(double value, mlir::Type elementType);
  mlir::Value constant(double value, mlir::Type elementType,
                       llvm::ArrayRef<int64_t> shape) {
    return splat(value, mlir::RankedTensorType::get(shape, elementType));
  }
  mlir::Value constant(double value) {
    return constant(value, builder.getF32Type());
  }
  mlir::Value splat(double value, mlir::RankedTensorType type);
  /// An integer of any size, which a double might round.
  mlir::Value integer(int64_t value, mlir::Type elementType);

  /// The index along an axis, i64.
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, int64_t axis);

  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  /// In f32, which most functions are computed in; f64 stays f64.
  mlir::Value f32(mlir::Value value) {
    return elementType(value).isF64() ? value
                                      : cast(value, builder.getF32Type());
  }

  template <typename Op> mlir::Value binary(mlir::Value a, mlir::Value b) {
    unify(a, b);
    return Op::create(builder, loc, a, b);
  }
  mlir::Value add(mlir::Value a, mlir::Value b) { return binary<AddOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return binary<SubOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return binary<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return binary<DivOp>(a, b); }
  mlir::Value pow(mlir::Value a, mlir::Value b) { return binary<PowOp>(a, b); }
  mlir::Value add(mlir::Value a, double b) {
    return add(a, constant(b, elementType(a)));
  }
  mlir::Value mul(mlir::Value a, double b) {
    return mul(a, constant(b, elementType(a)));
  }
  /// 1 - a.
  mlir::Value oneMinus(mlir::Value a) {
    return sub(constant(1.0, elementType(a)), a);
  }
  template <typename Op> mlir::Value unary(mlir::Value a) {
    return Op::create(builder, loc, a);
  }
  mlir::Value compare(ComparePredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);

  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value slice(mlir::Value value, int64_t axis, int64_t offset,
                    int64_t size);
  mlir::Value sum(mlir::Value value, llvm::ArrayRef<int64_t> axes,
                  bool keepdims = true);
  /// Sum, mean over the last axis, which stays as size 1.
  mlir::Value rowSum(mlir::Value value);
  mlir::Value rowMean(mlir::Value value);
  mlir::Value rowMax(mlir::Value value);

  /// The gradient of a value of `shape` that was broadcast to `gradient`'s:
  /// sums over the broadcast axes, in `elementType`.
  mlir::Value reduceTo(mlir::Value gradient, llvm::ArrayRef<int64_t> shape,
                       mlir::Type elementType);
  /// The same for the operand that the gradient belongs to.
  mlir::Value gradientFor(mlir::Value operand, mlir::Value gradient) {
    return reduceTo(gradient, shapeOf(operand), gradientElementType(operand));
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;

private:
  void unify(mlir::Value &a, mlir::Value &b);
};

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNBUILDER_H
