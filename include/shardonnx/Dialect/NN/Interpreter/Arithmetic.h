// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What elements of a type do: floats are computed in double and rounded, which
// for + - * / and sqrt of f32 is what f32 hardware does; integers wrap.

#ifndef SHARDONNX_DIALECT_NN_INTERPRETER_ARITHMETIC_H
#define SHARDONNX_DIALECT_NN_INTERPRETER_ARITHMETIC_H

#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"

#include <cmath>

namespace shardonnx::nn {

/// Whether the floats that an op makes are rounded to their type, as in memory,
/// or stay doubles, as derivatives are judged with.
enum class Rounding { ToType, None };

inline Scalar ofInt(int64_t value) {
  Scalar scalar;
  scalar.i = value;
  return scalar;
}
inline Scalar ofFloat(double value) {
  Scalar scalar;
  scalar.f = value;
  return scalar;
}

/// Arithmetic on elements of one type.
class Arithmetic {
public:
  explicit Arithmetic(mlir::Type type, Rounding rounding = Rounding::ToType);

  bool isFloat() const { return kind <= Kind::Other; }
  bool isNaN(Scalar x) const { return isFloat() && std::isnan(x.f); }

  /// `value` as a float of the type.
  double round(double value) const;
  /// `value` as an element: rounded, or cut off towards zero.
  Scalar of(double value) const;
  /// `value` as an integer of the type.
  Scalar wrap(int64_t value) const;
  /// An element as a number.
  double toDouble(Scalar x) const;
  /// An element of another type converted to this one. ONNX leaves open what an
  /// integer out of range becomes.
  Scalar convert(Scalar x, const Arithmetic &from) const;

  /// -1, 0 or 1 as `a` is less than, equal to or greater than `b`; 2 where one
  /// of them is NaN.
  int compare(Scalar a, Scalar b) const;

  Scalar add(Scalar a, Scalar b) const;
  Scalar subtract(Scalar a, Scalar b) const;
  Scalar multiply(Scalar a, Scalar b) const;
  /// Integers are cut off towards zero; what has no quotient is 0, as in NumPy.
  Scalar divide(Scalar a, Scalar b) const;
  /// What the division leaves, with the sign of `a`, or with that of `b` where
  /// `floor`. An integer over 0 leaves 0.
  Scalar remainder(Scalar a, Scalar b, bool floor) const;
  /// The greater or lesser one; NaN wins, as in NumPy.
  Scalar max(Scalar a, Scalar b) const;
  Scalar min(Scalar a, Scalar b) const;
  /// Of integers by squaring, so that it wraps as products do.
  Scalar power(Scalar base, Scalar exponent) const;

  /// What no element is less (or greater) than: a maximum (or minimum) of
  /// nothing.
  Scalar least() const;
  Scalar greatest() const;

  /// Adds the product of `a` and `b` to a sum that is rounded only at the end.
  void accumulate(Scalar &sum, Scalar a, Scalar b) const {
    if (isFloat())
      sum.f += a.f * b.f;
    else
      sum = add(sum, multiply(a, b));
  }
  Scalar zero() const { return isFloat() ? ofFloat(0) : ofInt(0); }

private:
  enum class Kind { Double, Single, Other, Signed, Unsigned, Boolean };
  mlir::Type type;
  Kind kind;
  unsigned width;
};

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_INTERPRETER_ARITHMETIC_H
