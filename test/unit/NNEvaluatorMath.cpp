// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of NNMath, by the C library.

#include "NNEvaluator.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

using Element = std::function<double(ArrayRef<double>)>;

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

static double remainder(bool floor, double a, double b) {
  if (b == 0)
    return 0;
  double result = std::fmod(a, b);
  return floor && result != 0 && (result < 0) != (b < 0) ? result + b : result;
}

Element test::mathFunction(Operation *op) {
  auto of = [](double (*fn)(double)) -> Element {
    return [fn](ArrayRef<double> x) { return fn(x[0]); };
  };
  return TypeSwitch<Operation *, Element>(op)
      .Case([&](nn::FloorOp) { return of(std::floor); })
      .Case([&](nn::CeilOp) { return of(std::ceil); })
      .Case([&](nn::RoundOp) { return of(std::nearbyint); })
      .Case([&](nn::SignOp) { return of(sign); })
      .Case([&](nn::Expm1Op) { return of(std::expm1); })
      .Case([&](nn::Log1pOp) { return of(std::log1p); })
      .Case([&](nn::SoftplusOp) {
        return of([](double x) { return std::log1p(std::exp(x)); });
      })
      .Case([&](nn::TanOp) { return of(std::tan); })
      .Case([&](nn::AsinOp) { return of(std::asin); })
      .Case([&](nn::AcosOp) { return of(std::acos); })
      .Case([&](nn::AtanOp) { return of(std::atan); })
      .Case([&](nn::SinhOp) { return of(std::sinh); })
      .Case([&](nn::CoshOp) { return of(std::cosh); })
      .Case([&](nn::AsinhOp) { return of(std::asinh); })
      .Case([&](nn::AcoshOp) { return of(std::acosh); })
      .Case([&](nn::AtanhOp) { return of(std::atanh); })
      .Case([&](nn::QuotientOp) -> Element {
        return [](ArrayRef<double> x) {
          return x[1] == 0 ? 0 : std::trunc(x[0] / x[1]);
        };
      })
      .Case([&](nn::RemainderOp op) -> Element {
        bool floor = op.getFloor();
        return [floor](ArrayRef<double> x) {
          return remainder(floor, x[0], x[1]);
        };
      })
      .Default(Element());
}
