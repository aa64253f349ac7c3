// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise ops: shape rules, folders, and their gradients. What they
// compute on vectors is in ElementwiseVector.cpp.

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// Shape rules
//===----------------------------------------------------------------------===//

/// The broadcast of the operands' shapes with the given element type.
static LogicalResult inferBroadcast(std::optional<Location> loc,
                                    ValueRange operands, Type element,
                                    SmallVectorImpl<Type> &inferred) {
  SmallVector<int64_t> shape;
  for (Value operand : operands) {
    FailureOr<SmallVector<int64_t>> next =
        broadcastShapes(shape, shapeOf(operand));
    if (failed(next))
      return emitOptionalError(loc, "operand shapes do not broadcast: ",
                               operand.getType(), " against [", shape, "]");
    shape = *next;
  }
  inferred.push_back(RankedTensorType::get(shape, element));
  return success();
}

static LogicalResult checkSameElement(std::optional<Location> loc, Value a,
                                      Value b) {
  if (elementType(a) == elementType(b))
    return success();
  return emitOptionalError(loc,
                           "operands differ in element type: ", elementType(a),
                           " and ", elementType(b));
}

#define NN_INFER_ARGUMENTS                                                     \
  MLIRContext *context, std::optional<Location> loc, ValueRange operands,      \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &inferred

#define NN_UNARY_INFER(OP)                                                     \
  LogicalResult OP::inferReturnTypes(NN_INFER_ARGUMENTS) {                     \
    inferred.push_back(operands[0].getType());                                 \
    return success();                                                          \
  }
NN_UNARY_INFER(NegOp)
NN_UNARY_INFER(ExpOp)
NN_UNARY_INFER(LogOp)
NN_UNARY_INFER(SqrtOp)
NN_UNARY_INFER(RsqrtOp)
NN_UNARY_INFER(ReciprocalOp)
NN_UNARY_INFER(TanhOp)
NN_UNARY_INFER(ErfOp)
NN_UNARY_INFER(SigmoidOp)
NN_UNARY_INFER(ReluOp)
NN_UNARY_INFER(AbsOp)
NN_UNARY_INFER(SinOp)
NN_UNARY_INFER(CosOp)
NN_UNARY_INFER(SiluOp)
NN_UNARY_INFER(GeluOp)

#define NN_BINARY_INFER(OP)                                                    \
  LogicalResult OP::inferReturnTypes(NN_INFER_ARGUMENTS) {                     \
    if (failed(checkSameElement(loc, operands[0], operands[1])))               \
      return failure();                                                        \
    return inferBroadcast(loc, operands, elementType(operands[0]), inferred);  \
  }
NN_BINARY_INFER(AddOp)
NN_BINARY_INFER(SubOp)
NN_BINARY_INFER(MulOp)
NN_BINARY_INFER(MaxOp)
NN_BINARY_INFER(MinOp)
NN_BINARY_INFER(AndOp)
NN_BINARY_INFER(OrOp)

#define NN_FLOAT_BINARY_INFER(OP)                                              \
  LogicalResult OP::inferReturnTypes(NN_INFER_ARGUMENTS) {                     \
    if (failed(checkSameElement(loc, operands[0], operands[1])))               \
      return failure();                                                        \
    if (!isa<FloatType>(elementType(operands[0])))                             \
      return emitOptionalError(loc, "operands must be floats, not ",           \
                               elementType(operands[0]));                      \
    return inferBroadcast(loc, operands, elementType(operands[0]), inferred);  \
  }
NN_FLOAT_BINARY_INFER(DivOp)
NN_FLOAT_BINARY_INFER(PowOp)

LogicalResult CompareOp::inferReturnTypes(NN_INFER_ARGUMENTS) {
  if (failed(checkSameElement(loc, operands[0], operands[1])))
    return failure();
  return inferBroadcast(loc, operands, IntegerType::get(context, 1), inferred);
}

LogicalResult SelectOp::inferReturnTypes(NN_INFER_ARGUMENTS) {
  if (failed(checkSameElement(loc, operands[1], operands[2])))
    return failure();
  return inferBroadcast(loc, operands, elementType(operands[1]), inferred);
}

LogicalResult CastOp::verify() {
  if (shapeOf(getOperand()) != shapeOf(getResult()))
    return emitOpError("keeps the shape, but goes from ")
           << getOperand().getType() << " to " << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

/// A splat of `type`, whose element is rounded as the type demands.
static Attribute splatAttr(RankedTensorType type, double value) {
  Type element = type.getElementType();
  if (auto floatType = dyn_cast<FloatType>(element))
    return DenseElementsAttr::get(type, FloatAttr::get(floatType, value));
  return DenseElementsAttr::get(
      type, IntegerAttr::get(element, static_cast<int64_t>(value)));
}

/// Two constants with equal elements each: one constant. Integers wider than
/// a double's mantissa are left alone.
template <typename Fn>
static OpFoldResult foldSplats(Type result, Attribute lhs, Attribute rhs,
                               Fn fn) {
  std::optional<double> a = getSplat(lhs), b = getSplat(rhs);
  constexpr double kExact = 9007199254740992.0; // 2^53
  auto type = cast<RankedTensorType>(result);
  if (!a || !b || type.getElementType().isInteger(1))
    return {};
  double value = fn(*a, *b);
  if (isa<IntegerType>(type.getElementType()) && std::fabs(value) > kExact)
    return {};
  return splatAttr(type, value);
}

/// `value` where it may stand for a result: same type.
static OpFoldResult ifSameType(Value value, Type type) {
  return value.getType() == type ? OpFoldResult(value) : OpFoldResult();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 0.0)
    return ifSameType(getLhs(), getType());
  return foldSplats(getType(), adaptor.getLhs(), adaptor.getRhs(),
                    [](double a, double b) { return a + b; });
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 0.0)
    return ifSameType(getLhs(), getType());
  return foldSplats(getType(), adaptor.getLhs(), adaptor.getRhs(),
                    [](double a, double b) { return a - b; });
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 1.0)
    return ifSameType(getLhs(), getType());
  return foldSplats(getType(), adaptor.getLhs(), adaptor.getRhs(),
                    [](double a, double b) { return a * b; });
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 1.0)
    return ifSameType(getLhs(), getType());
  return foldSplats(getType(), adaptor.getLhs(), adaptor.getRhs(),
                    [](double a, double b) { return a / b; });
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  // Widening first loses nothing, so narrowing back is the identity.
  if (auto inner = getOperand().getDefiningOp<CastOp>())
    if (inner.getOperand().getType() == getType() &&
        isa<FloatType>(elementType(getResult())) &&
        elementType(inner.getResult()).isF32())
      return inner.getOperand();
  auto from = elementType(getOperand()), to = elementType(getResult());
  std::optional<double> value = getSplat(adaptor.getOperand());
  if (value && (isa<FloatType>(from) || from.isInteger(64)) &&
      isa<FloatType>(to))
    return splatAttr(getType(), *value);
  return {};
}

/// x^2, x^3, x^0.5, x^-0.5 and x^-1 as what they are: cheaper, exact for
/// negative x, and with gradients of the same kind.
LogicalResult PowOp::canonicalize(PowOp op, PatternRewriter &rewriter) {
  std::optional<double> exponent = getSplat(op.getRhs());
  if (!exponent || op.getLhs().getType() != op.getType())
    return failure();
  NNBuilder b(rewriter, op.getLoc());
  Value x = op.getLhs(), result;
  if (*exponent == 1.0)
    result = x;
  else if (*exponent == 2.0)
    result = b.mul(x, x);
  else if (*exponent == 3.0)
    result = b.mul(b.mul(x, x), x);
  else if (*exponent == 0.5)
    result = b.unary<SqrtOp>(x);
  else if (*exponent == -0.5)
    result = b.unary<RsqrtOp>(x);
  else if (*exponent == -1.0)
    result = b.unary<ReciprocalOp>(x);
  else
    return failure();
  if (Attribute unit = op->getAttr(kUnitAttr); unit && result != x)
    result.getDefiningOp()->setAttr(kUnitAttr, unit);
  rewriter.replaceOp(op, result);
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients. Each computes in f32 from what is saved anyway: the operand, or
// the result where the formula is shorter.
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a unary gradient: `gradient` is given as x's, r's, g's f32.
struct Unary {
  Unary(Operation *op, OpBuilder &builder, ValueRange resultGrads)
      : b(builder, op->getLoc()), op(op), g(b.f32(resultGrads[0])) {}
  Value x() { return b.f32(op->getOperand(0)); }
  Value r() { return b.f32(op->getResult(0)); }
  LogicalResult done(Value gradient, MutableArrayRef<Value> operandGrads) {
    operandGrads[0] = b.gradientFor(op->getOperand(0), gradient);
    return success();
  }
  NNBuilder b;
  Operation *op;
  Value g;
};
} // namespace

#define NN_VJP(OP)                                                             \
  LogicalResult OP::buildVjp(OpBuilder &builder, ValueRange resultGrads,       \
                             const llvm::SmallBitVector &needed,               \
                             MutableArrayRef<Value> operandGrads)

NN_VJP(NegOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.unary<NegOp>(u.g), operandGrads);
}

NN_VJP(ExpOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.mul(u.g, u.r()), operandGrads);
}

NN_VJP(LogOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.div(u.g, u.x()), operandGrads);
}

NN_VJP(SqrtOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.div(u.b.mul(u.g, 0.5), u.r()), operandGrads);
}

NN_VJP(RsqrtOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r(), cube = u.b.mul(u.b.mul(r, r), r);
  return u.done(u.b.mul(u.b.mul(u.g, -0.5), cube), operandGrads);
}

NN_VJP(ReciprocalOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.unary<NegOp>(u.b.mul(u.g, u.b.mul(r, r))), operandGrads);
}

NN_VJP(TanhOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.mul(u.g, u.b.oneMinus(u.b.mul(r, r))), operandGrads);
}

NN_VJP(ErfOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x();
  Value bell = u.b.unary<ExpOp>(u.b.unary<NegOp>(u.b.mul(x, x)));
  return u.done(u.b.mul(u.g, u.b.mul(bell, 2.0 / std::sqrt(M_PI))),
                operandGrads);
}

NN_VJP(SigmoidOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.mul(u.g, u.b.mul(r, u.b.oneMinus(r))), operandGrads);
}

NN_VJP(ReluOp) {
  Unary u(*this, builder, resultGrads);
  Value zero = u.b.constant(0.0);
  Value active = u.b.compare(ComparePredicate::gt, u.r(), zero);
  return u.done(u.b.select(active, u.g, zero), operandGrads);
}

NN_VJP(AbsOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x(), zero = u.b.constant(0.0);
  Value negative = u.b.compare(ComparePredicate::lt, x, zero);
  Value positive = u.b.compare(ComparePredicate::gt, x, zero);
  Value rest = u.b.select(negative, u.b.unary<NegOp>(u.g), zero);
  return u.done(u.b.select(positive, u.g, rest), operandGrads);
}

NN_VJP(SinOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.mul(u.g, u.b.unary<CosOp>(u.x())), operandGrads);
}

NN_VJP(CosOp) {
  Unary u(*this, builder, resultGrads);
  Value sine = u.b.unary<SinOp>(u.x());
  return u.done(u.b.unary<NegOp>(u.b.mul(u.g, sine)), operandGrads);
}

// silu'(x) = s·(1 + x·(1 - s)), s = sigmoid(x).
NN_VJP(SiluOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x(), s = u.b.unary<SigmoidOp>(x);
  Value slope = u.b.add(u.b.mul(x, u.b.oneMinus(s)), 1.0);
  return u.done(u.b.mul(u.g, u.b.mul(s, slope)), operandGrads);
}

// With tanh: gelu(x) = x·s(p), s = sigmoid, p = 2·sqrt(2/π)·(x + 0.044715·x³),
// so gelu'(x) = s·(1 + x·(1 - s)·p'). Else: Φ(x) + x·φ(x).
NN_VJP(GeluOp) {
  Unary u(*this, builder, resultGrads);
  NNBuilder &b = u.b;
  Value x = u.x(), square = b.mul(x, x);
  if (getTanh()) {
    const double scale = 2.0 * std::sqrt(2.0 / M_PI), cubic = scale * 0.044715;
    Value p = b.mul(x, b.add(b.mul(square, cubic), scale));
    Value s = b.unary<SigmoidOp>(p);
    Value slope = b.add(b.mul(square, 3.0 * cubic), scale);
    Value factor = b.add(b.mul(b.mul(x, b.oneMinus(s)), slope), 1.0);
    return u.done(b.mul(u.g, b.mul(s, factor)), operandGrads);
  }
  Value erf = b.unary<ErfOp>(b.mul(x, std::sqrt(0.5)));
  Value cdf = b.mul(b.add(erf, 1.0), 0.5);
  Value density =
      b.mul(b.unary<ExpOp>(b.mul(square, -0.5)), 1.0 / std::sqrt(2.0 * M_PI));
  return u.done(b.mul(u.g, b.add(cdf, b.mul(x, density))), operandGrads);
}

NN_VJP(CastOp) {
  if (!needed[0])
    return success();
  NNBuilder b(builder, getLoc());
  operandGrads[0] = b.cast(resultGrads[0], gradientElementType(getOperand()));
  return success();
}

namespace {
/// The parts of a binary gradient.
struct Binary {
  Binary(Operation *op, OpBuilder &builder, ValueRange resultGrads,
         const llvm::SmallBitVector &needed,
         MutableArrayRef<Value> operandGrads)
      : b(builder, op->getLoc()), op(op), g(resultGrads[0]), needed(needed),
        operandGrads(operandGrads) {}
  Value lhs() { return b.f32(op->getOperand(0)); }
  Value rhs() { return b.f32(op->getOperand(1)); }
  Value g32() { return b.f32(g); }
  /// Builds and sets one operand's gradient where it is asked for.
  template <typename Fn> Binary &to(unsigned operand, Fn gradient) {
    if (needed[operand])
      operandGrads[operand] =
          b.gradientFor(op->getOperand(operand), gradient());
    return *this;
  }
  NNBuilder b;
  Operation *op;
  Value g;
  const llvm::SmallBitVector &needed;
  MutableArrayRef<Value> operandGrads;
};
} // namespace

NN_VJP(AddOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  v.to(0, [&] { return v.g; }).to(1, [&] { return v.g; });
  return success();
}

NN_VJP(SubOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  v.to(0, [&] { return v.g; }).to(1, [&] { return v.b.unary<NegOp>(v.g); });
  return success();
}

NN_VJP(MulOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  v.to(0, [&] { return v.b.mul(v.g32(), v.rhs()); });
  v.to(1, [&] { return v.b.mul(v.g32(), v.lhs()); });
  return success();
}

NN_VJP(DivOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  NNBuilder &b = v.b;
  v.to(0, [&] { return b.div(v.g32(), v.rhs()); });
  v.to(1, [&] {
    Value quotient = b.div(v.lhs(), v.rhs());
    return b.unary<NegOp>(b.div(b.mul(v.g32(), quotient), v.rhs()));
  });
  return success();
}

NN_VJP(PowOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  NNBuilder &b = v.b;
  v.to(0, [&] {
    std::optional<double> exponent = getSplat(getRhs());
    Value power =
        exponent == 2.0 ? v.lhs() : b.pow(v.lhs(), b.add(v.rhs(), -1.0));
    return b.mul(b.mul(v.g32(), v.rhs()), power);
  });
  v.to(1, [&] {
    return b.mul(b.mul(v.g32(), b.f32(getResult())), b.unary<LogOp>(v.lhs()));
  });
  return success();
}

/// g where `a` wins, half of it at a tie.
static Value winner(NNBuilder &b, ComparePredicate wins, Value g, Value a,
                    Value other) {
  Value tie = b.select(b.compare(ComparePredicate::eq, a, other), b.mul(g, 0.5),
                       b.constant(0.0));
  return b.select(b.compare(wins, a, other), g, tie);
}

static LogicalResult extremumVjp(ComparePredicate wins, Binary v) {
  v.to(0, [&] { return winner(v.b, wins, v.g32(), v.lhs(), v.rhs()); });
  v.to(1, [&] { return winner(v.b, wins, v.g32(), v.rhs(), v.lhs()); });
  return success();
}

NN_VJP(MaxOp) {
  return extremumVjp(ComparePredicate::gt,
                     Binary(*this, builder, resultGrads, needed, operandGrads));
}

NN_VJP(MinOp) {
  return extremumVjp(ComparePredicate::lt,
                     Binary(*this, builder, resultGrads, needed, operandGrads));
}

NN_VJP(SelectOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  NNBuilder &b = v.b;
  auto zero = [&] { return b.constant(0.0, elementType(v.g)); };
  v.to(1, [&] { return b.select(getCondition(), v.g, zero()); });
  v.to(2, [&] { return b.select(getCondition(), zero(), v.g); });
  return success();
}
