// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f32 and f64 arithmetic. Approximate instructions are run as accurately as
// the host's library; subnormals are kept whatever .ftz says.

#include "LaneMacros.h"
#include <cmath>

using namespace shardonnx::emulator;

namespace {

/// A NaN gives way to a number, and -0 is less than +0.
template <class T> T minimum(T a, T b) {
  T less = a < b ? a : (a == b ? (std::signbit(a) ? a : b) : b);
  return a != a ? b : (b != b ? a : less);
}
template <class T> T maximum(T a, T b) {
  T more = a > b ? a : (a == b ? (std::signbit(a) ? b : a) : b);
  return a != a ? b : (b != b ? a : more);
}
template <class T> T minimumNaN(T a, T b) {
  return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : minimum(a, b);
}
template <class T> T maximumNaN(T a, T b) {
  return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : maximum(a, b);
}

float saturate(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }

enum Rounding { Down, Up, Zero };

/// A double, which holds the exact result (or nearly: of an fma), rounded in a
/// direction.
template <Rounding mode> float directed(double exact) {
  float nearest = static_cast<float>(exact);
  bool down = mode == Down || (mode == Zero && exact > 0);
  bool up = mode == Up || (mode == Zero && exact < 0);
  if (down && nearest > exact)
    return std::nextafterf(nearest, -INFINITY);
  if (up && nearest < exact)
    return std::nextafterf(nearest, INFINITY);
  return nearest;
}

template <class T> void addBasic(HandlerTable &table) {
  const std::string n = typeName<T>();
  BINARY("add", a + b);
  BINARY("sub", a - b);
  BINARY("mul", a * b);
  BINARY("div", a / b);
  TERNARY("fma", std::fma(a, b, c));
  TERNARY("mad", std::fma(a, b, c));
  UNARY("neg", -a);
  UNARY("abs", std::fabs(a));
  UNARY("sqrt", std::sqrt(a));
  UNARY("rcp", T(1) / a);
  UNARY("rsqrt", T(1) / std::sqrt(a));
  BINARY("min", minimum(a, b));
  BINARY("max", maximum(a, b));
  BINARY("copysign", std::copysign(b, a));
}

template <Rounding mode>
void addDirected(HandlerTable &table, const std::string &name) {
  using T = float;
  const std::string n = name + ".f32";
  BINARY("add", directed<mode>(double(a) + b));
  BINARY("sub", directed<mode>(double(a) - b));
  BINARY("mul", directed<mode>(double(a) * b));
  BINARY("div", directed<mode>(double(a) / b));
  TERNARY("fma", directed<mode>(std::fma(double(a), double(b), double(c))));
  UNARY("rcp", directed<mode>(1 / double(a)));
  UNARY("sqrt", directed<mode>(std::sqrt(double(a))));
}

void addSingle(HandlerTable &table) {
  using T = float;
  const std::string n = "f32";
  BINARY("min.NaN", minimumNaN(a, b));
  BINARY("max.NaN", maximumNaN(a, b));
  BINARY("add.sat", saturate(a + b));
  BINARY("sub.sat", saturate(a - b));
  BINARY("mul.sat", saturate(a * b));
  TERNARY("fma.sat", saturate(std::fma(a, b, c)));
  TERNARY("min3", minimum(minimum(a, b), c));
  TERNARY("max3", maximum(maximum(a, b), c));
  UNARY("ex2", std::exp2(a));
  UNARY("lg2", std::log2(a));
  UNARY("sin", std::sin(a));
  UNARY("cos", std::cos(a));
  UNARY("tanh", std::tanh(a));
}

#define TEST_PROPERTY(name, expression)                                        \
  table.add<Pred, T>(std::string("testp.") + (name) + "." + n,                 \
                     [](Warp &w, const Instr &i) {                             \
                       const T *x = w.at<T>(i.a);                              \
                       uint32_t bits = 0;                                      \
                       for (unsigned l = 0; l < kLanes; ++l) {                 \
                         T a = x[l];                                           \
                         bits |= static_cast<uint32_t>(expression) << l;       \
                       }                                                       \
                       w.setPredicate(i.d, bits);                              \
                     })

template <class T> void addTests(HandlerTable &table) {
  const std::string n = typeName<T>();
  TEST_PROPERTY("finite", std::isfinite(a));
  TEST_PROPERTY("infinite", std::isinf(a));
  TEST_PROPERTY("number", !std::isnan(a));
  TEST_PROPERTY("notanumber", std::isnan(a));
  TEST_PROPERTY("normal", std::isnormal(a));
  TEST_PROPERTY("subnormal", std::fpclassify(a) == FP_SUBNORMAL);
}

} // namespace

void shardonnx::emulator::addFloatHandlers(HandlerTable &table) {
  addBasic<float>(table);
  addBasic<double>(table);
  addSingle(table);
  addDirected<Down>(table, "rm");
  addDirected<Up>(table, "rp");
  addDirected<Zero>(table, "rz");
  addTests<float>(table);
  addTests<double>(table);
}
