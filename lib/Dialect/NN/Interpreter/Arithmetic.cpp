// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on elements of tensors of known value.

#include "shardonnx/Dialect/NN/Interpreter/Arithmetic.h"

#include <limits>

using namespace mlir;

namespace shardonnx::nn {

Arithmetic::Arithmetic(Type type, Rounding rounding)
    : type(type), width(type.getIntOrFloatBitWidth()) {
  if (isa<FloatType>(type))
    kind = type.isF64() || rounding == Rounding::None ? Kind::Double
           : type.isF32()                             ? Kind::Single
                                                      : Kind::Other;
  else if (width == 1)
    kind = Kind::Boolean;
  else
    kind = type.isUnsignedInteger() ? Kind::Unsigned : Kind::Signed;
}

double Arithmetic::round(double value) const {
  if (kind == Kind::Double)
    return value;
  return kind == Kind::Single ? static_cast<float>(value)
                              : roundTo(value, type);
}

Scalar Arithmetic::wrap(int64_t value) const {
  return ofInt(width >= 64 ? value : wrapTo(value, type));
}

Scalar Arithmetic::of(double value) const {
  return isFloat() ? ofFloat(round(value)) : wrap(static_cast<int64_t>(value));
}

double Arithmetic::toDouble(Scalar x) const {
  if (isFloat())
    return x.f;
  return kind == Kind::Unsigned ? static_cast<double>(uint64_t(x.i))
                                : static_cast<double>(x.i);
}

Scalar Arithmetic::convert(Scalar x, const Arithmetic &from) const {
  if (kind == Kind::Boolean)
    return ofInt(from.isFloat() ? x.f != 0 : x.i != 0);
  if (isFloat()) {
    // An integer is rounded once, straight to the type.
    if (kind == Kind::Single && !from.isFloat())
      return ofFloat(from.kind == Kind::Unsigned
                         ? static_cast<float>(uint64_t(x.i))
                         : static_cast<float>(x.i));
    return ofFloat(round(from.toDouble(x)));
  }
  if (!from.isFloat())
    return wrap(x.i);
  if (x.f >= 0x1p63 && x.f < 0x1p64 && kind == Kind::Unsigned && width == 64)
    return ofInt(static_cast<int64_t>(static_cast<uint64_t>(x.f)));
  // What has no integer becomes the least one, as kernels on CPUs have it;
  // narrow integers are cut from those of 32 bits.
  bool isLong = width == 64 || (width == 32 && kind == Kind::Unsigned);
  double bound = isLong ? 0x1p63 : 0x1p31;
  if (!(x.f > -bound - 1 && x.f < bound))
    return wrap(isLong ? std::numeric_limits<int64_t>::min()
                       : std::numeric_limits<int32_t>::min());
  return wrap(static_cast<int64_t>(x.f));
}

int Arithmetic::compare(Scalar a, Scalar b) const {
  if (isFloat()) {
    if (std::isnan(a.f) || std::isnan(b.f))
      return 2;
    return a.f < b.f ? -1 : a.f > b.f;
  }
  if (kind == Kind::Unsigned) {
    auto x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);
    return x < y ? -1 : x > y;
  }
  return a.i < b.i ? -1 : a.i > b.i;
}

Scalar Arithmetic::add(Scalar a, Scalar b) const {
  if (isFloat())
    return ofFloat(round(a.f + b.f));
  return wrap(static_cast<int64_t>(uint64_t(a.i) + uint64_t(b.i)));
}

Scalar Arithmetic::subtract(Scalar a, Scalar b) const {
  if (isFloat())
    return ofFloat(round(a.f - b.f));
  return wrap(static_cast<int64_t>(uint64_t(a.i) - uint64_t(b.i)));
}

Scalar Arithmetic::multiply(Scalar a, Scalar b) const {
  if (isFloat())
    return ofFloat(round(a.f * b.f));
  return wrap(static_cast<int64_t>(uint64_t(a.i) * uint64_t(b.i)));
}

Scalar Arithmetic::divide(Scalar a, Scalar b) const {
  if (isFloat())
    return ofFloat(round(a.f / b.f));
  if (b.i == 0)
    return ofInt(0);
  if (kind == Kind::Unsigned)
    return ofInt(static_cast<int64_t>(uint64_t(a.i) / uint64_t(b.i)));
  return b.i == -1 ? subtract(ofInt(0), a) : wrap(a.i / b.i);
}

Scalar Arithmetic::remainder(Scalar a, Scalar b, bool floor) const {
  if (isFloat()) {
    if (!floor)
      return ofFloat(round(std::fmod(a.f, b.f)));
    if (std::isnan(a.f) || std::isnan(b.f) || std::isinf(a.f) || b.f == 0)
      return ofFloat(std::numeric_limits<double>::quiet_NaN());
    double rest = std::fmod(a.f, b.f);
    if (rest == 0)
      return ofFloat(std::copysign(0.0, b.f));
    return ofFloat(round((rest < 0) != (b.f < 0) ? rest + b.f : rest));
  }
  if (b.i == 0)
    return ofInt(0);
  if (kind == Kind::Unsigned)
    return ofInt(static_cast<int64_t>(uint64_t(a.i) % uint64_t(b.i)));
  int64_t rest = b.i == -1 ? 0 : a.i % b.i;
  return ofInt(floor && rest != 0 && (rest < 0) != (b.i < 0) ? rest + b.i
                                                             : rest);
}

Scalar Arithmetic::max(Scalar a, Scalar b) const {
  if (isNaN(a) || isNaN(b))
    return isNaN(a) ? a : b;
  return compare(a, b) >= 0 ? a : b;
}

Scalar Arithmetic::min(Scalar a, Scalar b) const {
  if (isNaN(a) || isNaN(b))
    return isNaN(a) ? a : b;
  return compare(a, b) <= 0 ? a : b;
}

Scalar Arithmetic::power(Scalar base, Scalar exponent) const {
  if (isFloat())
    return ofFloat(round(std::pow(base.f, exponent.f)));
  if (exponent.i < 0 && kind != Kind::Unsigned)
    return ofInt(base.i == 1    ? 1
                 : base.i == -1 ? (exponent.i % 2 ? -1 : 1)
                                : 0);
  uint64_t result = 1, square = static_cast<uint64_t>(base.i);
  for (auto rest = static_cast<uint64_t>(exponent.i); rest > 0;
       rest >>= 1, square *= square)
    if (rest & 1)
      result *= square;
  return wrap(static_cast<int64_t>(result));
}

Scalar Arithmetic::least() const {
  if (isFloat())
    return ofFloat(-std::numeric_limits<double>::infinity());
  if (kind != Kind::Signed)
    return ofInt(0);
  return ofInt(-(int64_t(1) << (width - 2)) * 2);
}

Scalar Arithmetic::greatest() const {
  if (isFloat())
    return ofFloat(std::numeric_limits<double>::infinity());
  if (kind == Kind::Signed)
    return ofInt(~least().i);
  return wrap(-1);
}

} // namespace shardonnx::nn
