// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise ops of more than one operand, and casts: shape rules, folders,
// gradients, what they compute on vectors, and by their definition.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "VectorBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
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
      return misfit(loc, "operand shapes do not broadcast: ", operand.getType(),
                    " against [", shape, "]");
    shape = *next;
  }
  inferred.push_back(RankedTensorType::get(shape, element));
  return success();
}

static LogicalResult checkSameElement(std::optional<Location> loc, Value a,
                                      Value b) {
  if (elementType(a) == elementType(b))
    return success();
  return misfit(loc, "operands differ in element type: ", elementType(a),
                " and ", elementType(b));
}

#define NN_BINARY_INFER(OP)                                                    \
  NN_INFER(OP) {                                                               \
    if (failed(checkSameElement(loc, operands[0], operands[1])))               \
      return failure();                                                        \
    return inferBroadcast(loc, operands, elementType(operands[0]), inferred);  \
  }
NN_BINARY_INFER(AddOp)
NN_BINARY_INFER(SubOp)
NN_BINARY_INFER(MulOp)
NN_BINARY_INFER(MaxOp)
NN_BINARY_INFER(MinOp)
NN_BINARY_INFER(PowOp)
NN_BINARY_INFER(AndOp)
NN_BINARY_INFER(OrOp)

#define NN_FLOAT_BINARY_INFER(OP)                                              \
  NN_INFER(OP) {                                                               \
    if (failed(checkSameElement(loc, operands[0], operands[1])))               \
      return failure();                                                        \
    if (!isa<FloatType>(elementType(operands[0])))                             \
      return misfit(loc, "operands must be floats, not ",                      \
                    elementType(operands[0]));                                 \
    return inferBroadcast(loc, operands, elementType(operands[0]), inferred);  \
  }
NN_FLOAT_BINARY_INFER(DivOp)

NN_INFER(CompareOp) {
  if (failed(checkSameElement(loc, operands[0], operands[1])))
    return failure();
  return inferBroadcast(loc, operands, IntegerType::get(context, 1), inferred);
}

NN_INFER(SelectOp) {
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

/// Two constants with equal elements each: one constant. Integers wrap, as they
/// do where they are computed.
static OpFoldResult foldSplats(Type result, Attribute lhs, Attribute rhs,
                               double (*ofFloats)(double, double),
                               APInt (*ofIntegers)(const APInt &,
                                                   const APInt &)) {
  auto type = cast<RankedTensorType>(result);
  if (type.getElementType().isInteger(1))
    return {};
  std::optional<APInt> i = getIntegerSplat(lhs), k = getIntegerSplat(rhs);
  if (i && k)
    return DenseElementsAttr::get(type, ArrayRef<APInt>(ofIntegers(*i, *k)));
  std::optional<double> a = getSplat(lhs), b = getSplat(rhs);
  if (!a || !b || i || k)
    return {};
  return splatAttr(type, ofFloats(*a, *b));
}

/// `value` where it may stand for a result: same type.
static OpFoldResult ifSameType(Value value, Type type) {
  return value.getType() == type ? OpFoldResult(value) : OpFoldResult();
}

/// Whether `value` is a zero that changes no operand it is added to. A float of
/// -0 becomes +0 by the other zero, which strict numerics tell apart.
static bool isNeutralZero(Operation *op, Attribute value, bool negative) {
  std::optional<double> zero = getSplat(value);
  if (zero != 0.0)
    return false;
  return isa<IntegerType>(elementType(op->getResult(0))) ||
         std::signbit(*zero) == negative || !isStrict(op);
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isNeutralZero(*this, adaptor.getRhs(), /*negative=*/true))
    return ifSameType(getLhs(), getType());
  return foldSplats(
      getType(), adaptor.getLhs(), adaptor.getRhs(),
      [](double a, double b) { return a + b; },
      [](const APInt &a, const APInt &b) { return a + b; });
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isNeutralZero(*this, adaptor.getRhs(), /*negative=*/false))
    return ifSameType(getLhs(), getType());
  return foldSplats(
      getType(), adaptor.getLhs(), adaptor.getRhs(),
      [](double a, double b) { return a - b; },
      [](const APInt &a, const APInt &b) { return a - b; });
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 1.0)
    return ifSameType(getLhs(), getType());
  return foldSplats(
      getType(), adaptor.getLhs(), adaptor.getRhs(),
      [](double a, double b) { return a * b; },
      [](const APInt &a, const APInt &b) { return a * b; });
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (getSplat(adaptor.getRhs()) == 1.0)
    return ifSameType(getLhs(), getType());
  std::optional<double> a = getSplat(adaptor.getLhs()),
                        b = getSplat(adaptor.getRhs());
  if (!a || !b)
    return {};
  return splatAttr(cast<RankedTensorType>(getType()), *a / *b);
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
  auto from = elementType(getOperand());
  auto to = dyn_cast<FloatType>(elementType(getResult()));
  if (!to)
    return {};
  if (std::optional<APInt> value = getIntegerSplat(adaptor.getOperand());
      value && from.isInteger(64)) {
    // Rounded once, straight to the type.
    APFloat number(to.getFloatSemantics());
    number.convertFromAPInt(*value, /*IsSigned=*/true,
                            APFloat::rmNearestTiesToEven);
    return DenseElementsAttr::get(cast<RankedTensorType>(getType()),
                                  ArrayRef<APFloat>(number));
  }
  std::optional<double> value = getSplat(adaptor.getOperand());
  if (value && isa<FloatType>(from))
    return splatAttr(getType(), *value);
  return {};
}

/// x^2, x^3, x^0.5, x^-0.5 and x^-1 as what they are: cheaper, exact for
/// negative x, and with gradients of the same kind. Not bit for bit the same.
LogicalResult PowOp::canonicalize(PowOp op, PatternRewriter &rewriter) {
  std::optional<double> exponent = getSplat(op.getRhs());
  if (!exponent || op.getLhs().getType() != op.getType() || isStrict(op))
    return failure();
  NNBuilder b(rewriter, op.getLoc());
  auto inPlace = [&](Value made) {
    inheritPlace(made.getDefiningOp(), op);
    return made;
  };
  Value x = op.getLhs(), result;
  if (*exponent == 1.0)
    result = x;
  else if (*exponent == 2.0)
    result = inPlace(b.mul(x, x));
  else if (*exponent == 3.0)
    result = inPlace(b.mul(inPlace(b.mul(x, x)), x));
  else if (*exponent == 0.5)
    result = inPlace(b.unary<SqrtOp>(x));
  else if (*exponent == -0.5)
    result = inPlace(b.unary<RsqrtOp>(x));
  else if (*exponent == -1.0)
    result = inPlace(b.unary<ReciprocalOp>(x));
  else
    return failure();
  rewriter.replaceOp(op, result);
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

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

// As torch: what does not depend on an operand has no gradient, even where the
// formula is 0·∞. x^0 is such by x, 0^e with e ≥ 0 by e.
NN_VJP(PowOp) {
  Binary v(*this, builder, resultGrads, needed, operandGrads);
  NNBuilder &b = v.b;
  std::optional<double> exponent = getSplat(getRhs());
  auto is = [&](ComparePredicate predicate, Value value) {
    return b.compare(predicate, value, b.constant(0.0, elementType(value)));
  };
  auto byBase = [&] {
    Value power =
        exponent == 2.0 ? v.lhs() : b.pow(v.lhs(), b.add(v.rhs(), -1.0));
    Value slope = b.mul(b.mul(v.g32(), v.rhs()), power);
    if (exponent)
      return slope;
    return b.select(is(ComparePredicate::eq, v.rhs()), b.constant(0.0), slope);
  };
  if (exponent != 0.0)
    v.to(0, byBase);
  v.to(1, [&] {
    Value flat = b.binary<AndOp>(is(ComparePredicate::eq, v.lhs()),
                                 is(ComparePredicate::ge, v.rhs()));
    Value slope = b.mul(b.f32(getResult()), b.unary<LogOp>(v.lhs()));
    return b.mul(v.g32(), b.select(flat, b.constant(0.0), slope));
  });
  return success();
}

/// Nothing where `a` loses, half of g at a tie. A NaN neither loses nor ties.
static Value winner(NNBuilder &b, ComparePredicate loses, Value g, Value a,
                    Value other) {
  Value rest =
      b.select(b.compare(ComparePredicate::eq, a, other), b.mul(g, 0.5), g);
  return b.select(b.compare(loses, a, other), b.constant(0.0), rest);
}

static LogicalResult extremumVjp(ComparePredicate loses, Binary v) {
  v.to(0, [&] { return winner(v.b, loses, v.g32(), v.lhs(), v.rhs()); });
  v.to(1, [&] { return winner(v.b, loses, v.g32(), v.rhs(), v.lhs()); });
  return success();
}

NN_VJP(MaxOp) {
  return extremumVjp(ComparePredicate::lt,
                     Binary(*this, builder, resultGrads, needed, operandGrads));
}

NN_VJP(MinOp) {
  return extremumVjp(ComparePredicate::gt,
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

//===----------------------------------------------------------------------===//
// On vectors
//===----------------------------------------------------------------------===//

/// The op for floats, or the one for integers.
template <typename FloatOp, typename IntOp>
static Value emitBinary(OpBuilder &builder, Location loc, ValueRange vectors) {
  if (isFloat(vectors[0]))
    return FloatOp::create(builder, loc, vectors[0], vectors[1]);
  return IntOp::create(builder, loc, vectors[0], vectors[1]);
}

NN_EMIT(AddOp) {
  return emitBinary<arith::AddFOp, arith::AddIOp>(builder, getLoc(), vectors);
}
NN_EMIT(SubOp) {
  return emitBinary<arith::SubFOp, arith::SubIOp>(builder, getLoc(), vectors);
}
NN_EMIT(MulOp) {
  return emitBinary<arith::MulFOp, arith::MulIOp>(builder, getLoc(), vectors);
}
NN_EMIT(MaxOp) {
  return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(builder, getLoc(),
                                                       vectors);
}
NN_EMIT(MinOp) {
  return emitBinary<arith::MinimumFOp, arith::MinSIOp>(builder, getLoc(),
                                                       vectors);
}
NN_EMIT(DivOp) {
  return arith::DivFOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(PowOp) {
  return math::PowFOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(AndOp) {
  return arith::AndIOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(OrOp) {
  return arith::OrIOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(SelectOp) {
  return arith::SelectOp::create(builder, getLoc(), vectors[0], vectors[1],
                                 vectors[2]);
}

NN_EMIT(CompareOp) {
  using FP = arith::CmpFPredicate;
  using IP = arith::CmpIPredicate;
  static constexpr FP kFloat[] = {FP::OEQ, FP::UNE, FP::OLT,
                                  FP::OLE, FP::OGT, FP::OGE};
  static constexpr IP kSigned[] = {IP::eq,  IP::ne,  IP::slt,
                                   IP::sle, IP::sgt, IP::sge};
  // false < true
  static constexpr IP kBool[] = {IP::eq,  IP::ne,  IP::ult,
                                 IP::ule, IP::ugt, IP::uge};
  auto index = static_cast<unsigned>(getPredicate());
  if (isFloat(vectors[0]))
    return arith::CmpFOp::create(builder, getLoc(), kFloat[index], vectors[0],
                                 vectors[1]);
  bool isBool = getElementTypeOrSelf(vectors[0].getType()).isInteger(1);
  return arith::CmpIOp::create(builder, getLoc(),
                               isBool ? kBool[index] : kSigned[index],
                               vectors[0], vectors[1]);
}

/// The type of `like` with another element type.
static Type withElement(Type like, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(like))
    return shaped.clone(element);
  return element;
}

// Floats are f32 here whatever they are in memory, so a cast between them
// happens where the value is stored.
NN_EMIT(CastOp) {
  Value x = vectors[0];
  Type from = getElementTypeOrSelf(x.getType()), to = elementType(getResult());
  Location loc = getLoc();
  if (isa<FloatType>(to)) {
    if (isa<FloatType>(from))
      return x;
    Type type = withElement(x.getType(), builder.getF32Type());
    if (from.isInteger(1))
      return arith::UIToFPOp::create(builder, loc, type, x);
    return arith::SIToFPOp::create(builder, loc, type, x);
  }
  Type type = withElement(x.getType(), to);
  if (to.isInteger(1)) {
    Value zero = constantOf(builder, loc, x.getType(), 0.0);
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, x,
                                   zero);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, x,
                                 zero);
  }
  if (isa<FloatType>(from))
    return arith::FPToSIOp::create(builder, loc, type, x);
  if (from == to)
    return x;
  if (from.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, type, x);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return arith::ExtSIOp::create(builder, loc, type, x);
  return arith::TruncIOp::create(builder, loc, type, x);
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

void nn::attachElementwiseShardings(MLIRContext &context) {
  attachSharding<ShardableElementwise, AddOp, SubOp, MulOp, DivOp, PowOp, MaxOp,
                 MinOp, CompareOp, AndOp, OrOp, SelectOp, CastOp>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(CastOp) {
  Arithmetic from = interpreter.arithmetic(getOperand()),
             to = interpreter.arithmetic(getResult());
  return interpreter.map(
      *this, [&](ArrayRef<Scalar> x) { return to.convert(x[0], from); });
}

/// An op of two elements of the result's type.
template <typename Function>
static LogicalResult evaluateBinary(Operation *op, Interpreter &interpreter,
                                    Function function) {
  Arithmetic type = interpreter.arithmetic(op->getResult(0));
  return interpreter.map(
      op, [&](ArrayRef<Scalar> x) { return (type.*function)(x[0], x[1]); });
}

NN_EVALUATE(AddOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::add);
}
NN_EVALUATE(MulOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::multiply);
}
NN_EVALUATE(DivOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::divide);
}
NN_EVALUATE(PowOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::power);
}
NN_EVALUATE(MaxOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::max);
}
NN_EVALUATE(MinOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::min);
}

// Indices of rows less those of columns are stored by diagonals.
NN_EVALUATE(SubOp) {
  if (auto difference = HostTensor::indexDifference(interpreter.get(getLhs()),
                                                    interpreter.get(getRhs())))
    return interpreter.set(getResult(), *difference);
  return evaluateBinary(*this, interpreter, &Arithmetic::subtract);
}

/// Whether a comparison holds of operands of this order (Arithmetic::compare).
static bool holds(ComparePredicate predicate, int order) {
  switch (predicate) {
  case ComparePredicate::eq:
    return order == 0;
  case ComparePredicate::ne:
    return order != 0;
  case ComparePredicate::lt:
    return order == -1;
  case ComparePredicate::le:
    return order == -1 || order == 0;
  case ComparePredicate::gt:
    return order == 1;
  case ComparePredicate::ge:
    return order == 1 || order == 0;
  }
  llvm_unreachable("six comparisons");
}

NN_EVALUATE(CompareOp) {
  Arithmetic type = interpreter.arithmetic(getLhs());
  ComparePredicate predicate = getPredicate();
  // Indices of rows against those of columns: the difference against 0.
  if (auto difference = HostTensor::indexDifference(interpreter.get(getLhs()),
                                                    interpreter.get(getRhs())))
    return interpreter.set(
        getResult(),
        *HostTensor::map(
            {*difference}, elementType(getResult()), [&](ArrayRef<Scalar> x) {
              return ofInt(holds(predicate, type.compare(x[0], ofInt(0))));
            }));
  return interpreter.map(*this, [&](ArrayRef<Scalar> x) {
    return ofInt(holds(predicate, type.compare(x[0], x[1])));
  });
}

NN_EVALUATE(AndOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return ofInt(x[0].i & x[1].i); });
}
NN_EVALUATE(OrOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return ofInt(x[0].i | x[1].i); });
}
NN_EVALUATE(SelectOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return x[0].i ? x[1] : x[2]; });
}
