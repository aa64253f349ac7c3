// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats of 8 bits: the formats, how a tensor is rounded to one, products of
// such tensors and their gradients.

#include "DefineOps.h"
#include "Evaluate.h"
#include "VectorBuilder.h"
#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#include "shardonnx/Dialect/NN/IR/NNF8OpsEnums.cpp.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNF8Ops.cpp.inc"

void nn::registerF8Ops(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNF8Ops.cpp.inc"
      >(dialect);
}

namespace {

/// What a format holds: multiples of 2^(e - mantissaBits) from 2^e on, e at
/// least leastExponent, up to `largest`.
struct F8Numbers {
  int mantissaBits, leastExponent;
  double largest;
};

} // namespace

/// E4M3 is the variant without infinities (float8_e4m3fn).
static F8Numbers numbersOf(F8Format format) {
  return format == F8Format::e4m3 ? F8Numbers{3, -6, 448}
                                  : F8Numbers{2, -14, 57344};
}

bool nn::isTensorStep(Operation *op) { return isa<F8TensorStepOp>(op); }

/// torchao's EPS: what an amax of zero is taken for.
static constexpr double kLeastAmax = 1e-12;

//===----------------------------------------------------------------------===//
// f8_step, f8_round
//===----------------------------------------------------------------------===//

NN_INFER(F8StepOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(F8RoundOp) {
  if (!broadcastsTo(shapeOf(operands[1]), shapeOf(operands[0])))
    return misfit(loc, "steps ", operands[1].getType(), " do not broadcast to ",
                  operands[0].getType());
  inferred.push_back(operands[0].getType());
  return success();
}

static Type f8Type(MLIRContext *context, F8Format format) {
  if (format == F8Format::e4m3)
    return Float8E4M3FNType::get(context);
  return Float8E5M2Type::get(context);
}

NN_INFER(F8TensorStepOp) {
  if (operands.empty())
    return misfit(loc, "is of no tensor");
  inferred.push_back(RankedTensorType::get({1}, Float32Type::get(context)));
  return success();
}

NN_INFER(F8CastOp) {
  F8CastOp::Adaptor adaptor(operands, attributes, properties, regions);
  if (!broadcastsTo(shapeOf(operands[1]), shapeOf(operands[0])))
    return misfit(loc, "steps ", operands[1].getType(), " do not broadcast to ",
                  operands[0].getType());
  inferred.push_back(
      tensorType(operands[0]).clone(f8Type(context, adaptor.getFormat())));
  return success();
}

NN_INFER(F8CastMatrixOp) {
  F8CastMatrixOp::Adaptor adaptor(operands, attributes, properties, regions);
  auto matrix = tensorType(operands[0]);
  if (matrix.getRank() != 2 ||
      !broadcastsTo(shapeOf(operands[1]), matrix.getShape()))
    return misfit(loc, "steps ", operands[1].getType(),
                  " are none of a matrix ", matrix);
  Type type = f8Type(context, adaptor.getFormat());
  inferred.push_back(matrix.clone(type));
  inferred.push_back(
      matrix.clone({matrix.getDimSize(1), matrix.getDimSize(0)}, type));
  return success();
}

NN_VJP(F8StepOp) { return success(); }
NN_VJP(F8RoundOp) { return success(); }

namespace {

/// Powers of two as bits of f32.
struct Powers : Vec {
  using Vec::Vec;

  /// The power of two at or below |x|; infinity where x is not finite, 0 of
  /// zero.
  Value floorOf(Value x) {
    Value bits = toBits(x);
    return toFloat(arith::AndIOp::create(
        b, loc, bits, constantOf(b, loc, bits.getType(), 0x7f800000)));
  }
  /// 1/x of a power of two that has one, not finite of infinity.
  Value inverse(Value x) {
    Value bits = toBits(x);
    Value one = constantOf(b, loc, bits.getType(), 254 << 23);
    return toFloat(arith::SubIOp::create(b, loc, one, bits));
  }

  /// The least power of two p with x ≤ most·p, over 2^exponent; 1 ≤ most < 2.
  Value lift(Value x, float most, int exponent) {
    constexpr int64_t kMantissa = 0x7fffff, kPower = 1 << 23;
    Value bits = toBits(x);
    auto bitsOf = [&](int64_t value) {
      return constantOf(b, loc, bits.getType(), value);
    };
    // What is more than most carries into the exponent.
    int64_t rest = kMantissa - (llvm::bit_cast<int32_t>(most) & kMantissa);
    bits = arith::AddIOp::create(b, loc, bits, bitsOf(rest));
    bits = arith::AndIOp::create(b, loc, bits, bitsOf(0x7f800000));
    return toFloat(
        arith::SubIOp::create(b, loc, bits, bitsOf(exponent * kPower)));
  }

private:
  Type withElement(Type type, Type element) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped ? Type(shaped.clone(element)) : element;
  }
  Value toBits(Value x) {
    return arith::BitcastOp::create(
        b, loc, withElement(x.getType(), b.getI32Type()), x);
  }
  Value toFloat(Value bits) {
    return arith::BitcastOp::create(
        b, loc, withElement(bits.getType(), b.getF32Type()), bits);
  }
};

} // namespace

// What is not finite stays so up to the products.
// Both formats' largest numbers are 1.75·2^k. Division is not exact on GPUs.
Value nn::emitF8Step(OpBuilder &builder, Location loc, F8Format format,
                     Value amax) {
  Powers v(builder, loc);
  amax = arith::MaximumFOp::create(builder, loc, amax,
                                   v.constant(amax, kLeastAmax));
  Value finite = arith::CmpFOp::create(
      builder, loc, arith::CmpFPredicate::OLT, amax,
      v.constant(amax, std::numeric_limits<double>::infinity()));
  int exponent = std::ilogb(numbersOf(format).largest);
  return arith::SelectOp::create(builder, loc, finite,
                                 v.lift(amax, 1.75f, exponent), amax);
}

NN_EMIT(F8StepOp) {
  return emitF8Step(builder, getLoc(), getFormat(), vectors[0]);
}

// Neighbours of y lie 2^-mantissaBits of its power of two apart.
NN_EMIT(F8RoundOp) {
  Powers v(builder, getLoc());
  F8Numbers numbers = numbersOf(getFormat());
  Value step = vectors[1], y = v.mul(vectors[0], v.inverse(step));
  Value least = v.constant(y, std::ldexp(1.0, numbers.leastExponent));
  Value power =
      arith::MaximumFOp::create(builder, getLoc(), v.floorOf(y), least);
  Value apart = v.mul(power, std::ldexp(1.0, -numbers.mantissaBits));
  Value count =
      math::RoundEvenOp::create(builder, getLoc(), v.mul(y, v.inverse(apart)));
  return v.mul(v.mul(count, apart), step);
}

// What is stored is rounded by the store.
NN_EMIT(F8CastOp) {
  Powers v(builder, getLoc());
  return v.mul(vectors[0], v.inverse(vectors[1]));
}

static double stepOf(double amax, F8Format format) {
  if (!std::isfinite(amax))
    return amax;
  int exponent;
  (void)std::frexp(
      float(numbersOf(format).largest / std::max(amax, kLeastAmax)), &exponent);
  return std::ldexp(1.0, 1 - exponent);
}

NN_EVALUATE(F8StepOp) {
  return evaluateReal(*this, interpreter, [format = getFormat()](double amax) {
    return stepOf(amax, format);
  });
}

NN_EVALUATE(F8TensorStepOp) {
  double amax = 0;
  for (Value input : getInputs())
    for (Scalar x : interpreter.get(input).flatten())
      amax = std::isnan(x.f) ? x.f : std::max(amax, std::fabs(x.f));
  std::vector<Scalar> step = {ofFloat(stepOf(amax, getFormat()))};
  return interpreter.set(getResult(), std::move(step));
}

/// A finite number of a format's range as the format holds it.
static double roundToFormat(double y, const F8Numbers &numbers) {
  if (y == 0)
    return 0;
  int exponent;
  (void)std::frexp(y, &exponent);
  double apart = std::ldexp(1.0, std::max(exponent - 1, numbers.leastExponent) -
                                     numbers.mantissaBits);
  return std::nearbyint(y / apart) * apart;
}

LogicalResult F8WeightStepOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getParameters().empty() || tensorType(getResult()).getNumElements() != 1)
    return emitOpError("is one step, of some parameters");
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>())
    if (!symbols.lookupNearestSymbolFrom<ParameterOp>(*this, name.getAttr()))
      return emitOpError("no parameter is called ") << name;
  return success();
}

NN_EVALUATE(F8WeightStepOp) {
  double amax = 0;
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter = interpreter.parameters.find(name.getValue());
    if (parameter == interpreter.parameters.end())
      return interpreter.refuse(*this, "the value of @" + name.getValue() +
                                           " is not given");
    for (Scalar x : parameter->second.flatten())
      amax = std::isnan(x.f) ? x.f : std::max(amax, std::fabs(x.f));
  }
  std::vector<Scalar> step = {ofFloat(stepOf(amax, F8Format::e4m3))};
  return interpreter.set(getResult(), std::move(step));
}

NN_EVALUATE(F8RoundOp) {
  F8Numbers numbers = numbersOf(getFormat());
  return interpreter.map(*this, [numbers](ArrayRef<Scalar> x) {
    double y = x[0].f / x[1].f;
    return ofFloat(x[1].f *
                   (std::isfinite(y) ? roundToFormat(y, numbers) : x[0].f));
  });
}

NN_EVALUATE(F8CastOp) {
  F8Numbers numbers = numbersOf(getFormat());
  return interpreter.map(*this, [numbers](ArrayRef<Scalar> x) {
    double y = x[0].f / x[1].f;
    return ofFloat(std::isfinite(y) ? roundToFormat(y, numbers) : NAN);
  });
}

NN_EVALUATE(F8CastMatrixOp) {
  F8Numbers numbers = numbersOf(getFormat());
  Elements x(interpreter.get(getOperand()));
  Elements step(interpreter.get(getStep()));
  Elements transposed(shapeOf(getColumns()), ofFloat(0));
  forEachIndex(shapeOf(getOperand()), [&](ArrayRef<int64_t> index) {
    Scalar &value = x.at(index);
    value.f = roundToFormat(value.f / step.at(index).f, numbers);
    transposed.at({index[1], index[0]}) = value;
  });
  (void)interpreter.set(getColumns(), std::move(transposed.values));
  return interpreter.set(getRows(), std::move(x.values));
}

Value nn::amaxOf(OpBuilder &builder, Location loc, Value value,
                 std::optional<int64_t> axis) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value)));
  if (axis)
    axes = {*axis};
  Value size = NNBuilder(builder, loc).unary<AbsOp>(value);
  return ReduceMaxOp::create(builder, loc, size, axes, /*keepdims=*/true);
}

Value nn::amaxOverRanks(OpBuilder &builder, Location loc, Value amax,
                        int64_t dim, ArrayRef<MeshAxis> axes) {
  Mesh mesh = meshOf(builder.getInsertionBlock()->getParentOp());
  for (MeshAxis axis : axes) {
    int64_t ranks = mesh.size(axis);
    if (ranks < 2)
      continue;
    Value all = AllGatherOp::create(builder, loc, amax, spell(axis), ranks, dim,
                                    ArrayRef(ranks), /*varies=*/false);
    amax = ReduceMaxOp::create(builder, loc, all, ArrayRef(dim),
                               /*keepdims=*/true);
  }
  return amax;
}

Value nn::roundToF8(OpBuilder &builder, Location loc, F8Format format,
                    Value value, Value amax) {
  Value wide = NNBuilder(builder, loc).f32(amax);
  Value step = F8StepOp::create(builder, loc, format, wide);
  return F8RoundOp::create(builder, loc, format, value, step);
}

//===----------------------------------------------------------------------===//
// f8_matmul (what products share is Matmul.cpp's)
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> F8MatmulOp::decompose(OpBuilder &builder) {
  Value product = MatmulOp::create(builder, getLoc(), getType(), getLhs(),
                                   getRhs(), false, getTransposeRhs());
  return SmallVector<Value>{product};
}

/// Parts that lie side by side, each made by a kernel of ours, which then takes
/// their largest values and rounds them: gradients of slices (joined products).
static SmallVector<Value> computedParts(Value g) {
  auto concat = g.getDefiningOp<ConcatOp>();
  bool apart = concat && concat.getAxis() == 1 &&
               llvm::all_of(concat.getOperands(), [](Value part) {
                 while (auto reshape = part.getDefiningOp<ReshapeOp>())
                   part = reshape.getOperand();
                 return part.getDefiningOp<ElementwiseOpInterface>() != nullptr;
               });
  if (apart)
    return llvm::to_vector(concat.getOperands());
  return {g};
}

static SmallVector<MeshAxis> gradientAxes(F8MatmulOp op) {
  SmallVector<MeshAxis> axes;
  if (std::optional<ArrayAttr> names = op.getGradAxes())
    for (auto name : names->getAsRange<StringAttr>())
      axes.push_back(*parseSpelling<MeshAxis>(name.getValue()));
  return axes;
}

/// The result's gradient, with a scale for each row or one for all.
static Value roundGradient(OpBuilder &builder, Location loc, Value g,
                           bool byRow, ArrayRef<MeshAxis> axes) {
  SmallVector<Value> parts = computedParts(g);
  Value amax;
  for (Value part : parts) {
    Value largest = amaxOf(builder, loc, part, 1);
    amax =
        amax ? NNBuilder(builder, loc).binary<MaxOp>(amax, largest) : largest;
  }
  if (!byRow)
    amax = amaxOf(builder, loc, amax);
  amax = amaxOverRanks(builder, loc, amax, /*dim=*/1, axes);
  for (Value &part : parts)
    part = roundToF8(builder, loc, byRow ? F8Format::e4m3 : F8Format::e5m2,
                     part, amax);
  if (parts.size() == 1)
    return parts.front();
  return ConcatOp::create(builder, loc, parts, /*axis=*/1);
}

NN_VJP(F8MatmulOp) {
  NNBuilder b(builder, getLoc());
  bool byRow = getRecipe() == F8Recipe::rowwise;
  Value source = getLhsSource(), weight = getRhsSource();
  Value g = b.cast(resultGrads[0], elementType(getLhs()));
  Value rows = roundGradient(builder, getLoc(), g, byRow, gradientAxes(*this));
  if (needed[2])
    operandGrads[2] =
        MatmulOp::create(builder, getLoc(), rows, getRhsBack(), false,
                         !getTransposeRhs(), gradientElementType(source));
  if (!needed[3])
    return success();
  Value left = byRow ? source : getLhs(), right = byRow ? g : rows;
  if (getTransposeRhs())
    std::swap(left, right);
  operandGrads[3] = MatmulOp::create(builder, getLoc(), left, right, true,
                                     false, gradientElementType(weight));
  return success();
}

//===----------------------------------------------------------------------===//
// f8_product
//===----------------------------------------------------------------------===//

LogicalResult F8ProductOp::verify() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs()),
                    result = shapeOf(getResult());
  if (lhs.size() != 2 || rhs.size() != 2 || lhs[1] != rhs[1] ||
      result != ArrayRef<int64_t>({lhs[0], rhs[0]}))
    return emitOpError("shapes do not multiply");
  if (isa<Float8E5M2Type>(elementType(getLhs())) &&
      isa<Float8E5M2Type>(elementType(getRhs())))
    return emitOpError("has no operand with three bits of mantissa");
  auto countOf = [](Value step) { return tensorType(step).getNumElements(); };
  int64_t left = countOf(getLhsStep()), right = countOf(getRhsStep());
  if ((left != 1 || right != 1) && (left != lhs[0] || right != rhs[0]))
    return emitOpError("steps are one for each operand, or one for each row");
  if (Value addend = getAddend())
    if (elementType(addend) != elementType(getResult()) ||
        (shapeOf(addend) != result && shapeOf(addend) != result.take_back()))
      return emitOpError("addend is neither a matrix nor a row of the result");
  return success();
}

int64_t F8ProductOp::getFlops() {
  return 2 * tensorType(getResult()).getNumElements() * shapeOf(getLhs())[1];
}

NN_EVALUATE(F8ProductOp) {
  ArrayRef<int64_t> shape = shapeOf(getResult());
  int64_t depth = shapeOf(getLhs())[1];
  if (!interpreter.allowsSteps(*this, {shape[0], shape[1], depth}))
    return failure();
  std::vector<Scalar> lhs = interpreter.get(getLhs()).flatten(),
                      rhs = interpreter.get(getRhs()).flatten(),
                      left = interpreter.get(getLhsStep()).flatten(),
                      right = interpreter.get(getRhsStep()).flatten(), addend;
  if (getAddend())
    addend = interpreter.get(getAddend()).flatten();
  Elements result(shape, ofFloat(0));
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += lhs[i * depth + k].f * rhs[j * depth + k].f;
      sum *= left[i % left.size()].f * right[j % right.size()].f;
      int64_t at = i * shape[1] + j;
      if (!addend.empty())
        sum += addend[at % addend.size()].f;
      result.values[at] = ofFloat(sum);
    }
  return interpreter.set(getResult(), std::move(result.values));
}
