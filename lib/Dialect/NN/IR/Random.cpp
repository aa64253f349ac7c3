// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout and random numbers as elementwise ops on indices: the arithmetic of
// runtime/Random.h, so that a fused kernel makes them in registers, again in
// backward.

#include "shardonnx/runtime/Random.h"
#include "DefineOps.h"
#include "Evaluate.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/RandomBits.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// dropout, random_uniform
//===----------------------------------------------------------------------===//

NN_INFER(DropoutOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(PartDropoutOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

namespace {
/// What numbers are drawn for: a tensor, of at least two axes, and where it
/// lies in the whole.
struct Draw {
  explicit Draw(DropoutOp op) : Draw(op, op.getOperand()) {}
  explicit Draw(RandomUniformOp op) : Draw(op, op.getResult()) {}
  explicit Draw(PartDropoutOp op) : Draw(op, op.getOperand()) {
    dim = op.getDim();
    positions = op.getPositions();
    whole[dim] = int64_t(op.getSize());
  }
  template <typename Op>
  Draw(Op op, Value of)
      : random(op.getRandom()), stream(op.getStream()),
        samples(op.getSamples()), part(shapeOf(of)) {
    if (part.size() == 1)
      part.push_back(1);
    whole = part;
  }

  Value random;
  int64_t stream, samples;
  SmallVector<int64_t> part, whole;
  int64_t dim = -1;
  Value positions; // along `dim`; none: all is there
};
} // namespace

static LogicalResult verifyDraw(Operation *op, const Draw &draw) {
  RankedTensorType random = tensorType(draw.random);
  if (random.getRank() != 1 || !random.getElementType().isInteger(64) ||
      draw.stream < 0 || draw.stream + 1 >= random.getDimSize(0))
    return op->emitOpError("stream ")
           << draw.stream << " has no key in " << random;
  if (draw.whole.empty() || draw.samples < 1 ||
      draw.whole[0] % draw.samples != 0)
    return op->emitOpError("axis 0 of ")
           << op->getResult(0).getType() << " is not made of " << draw.samples
           << " samples";
  return success();
}

template <typename Op> static LogicalResult verifyDropout(Op op) {
  double ratio = op.getRatio().convertToDouble();
  if (!(ratio > 0 && ratio < 1))
    return op.emitOpError("ratio must be above 0 and below 1");
  return verifyDraw(op, Draw(op));
}

LogicalResult DropoutOp::verify() { return verifyDropout(*this); }

LogicalResult RandomUniformOp::verify() {
  return verifyDraw(*this, Draw(*this));
}

LogicalResult PartDropoutOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  auto positions = tensorType(getPositions());
  int64_t dim = getDim();
  if (dim < 0 || dim + 1 >= int64_t(shape.size()) ||
      !positions.getElementType().isInteger(64) ||
      positions.getShape() != ArrayRef<int64_t>(shape[dim]) ||
      int64_t(getSize()) < shape[dim])
    return emitOpError("positions ")
           << positions << " are not those of dimension " << dim << " of "
           << getOperand().getType() << ", before its last, among "
           << int64_t(getSize());
  return verifyDropout(*this);
}

// Linear, and its own transpose: the same mask on the gradient.
NN_VJP(DropoutOp) {
  operandGrads[0] =
      DropoutOp::create(builder, getLoc(), resultGrads[0], getRandom(),
                        getRatioAttr(), getStreamAttr(), getSamplesAttr());
  return success();
}

NN_VJP(PartDropoutOp) {
  operandGrads[0] =
      PartDropoutOp::create(builder, getLoc(), resultGrads[0], getRandom(),
                            getPositions(), getRatioAttr(), getStreamAttr(),
                            getSamplesAttr(), getDimAttr(), getSizeAttr());
  return success();
}

/// The indices along an axis of rows.
static Value indicesOf(NNBuilder &b, const Draw &draw, RankedTensorType rows,
                       int64_t axis) {
  if (axis != draw.dim)
    return IotaOp::create(b.builder, b.loc, rows, axis);
  SmallVector<int64_t> shape(rows.getRank(), 1);
  shape[axis] = rows.getDimSize(axis);
  return b.reshape(draw.positions, shape);
}

/// `BitsOp`, which makes an `element` of each column's random bits.
template <typename BitsOp, typename... Arguments>
static Value drawBits(NNBuilder &b, const Draw &draw, Type element,
                      Arguments... arguments) {
  ArrayRef<int64_t> shape = draw.part, whole = draw.whole;
  Type i64 = b.builder.getI64Type(), i32 = b.builder.getI32Type();
  SmallVector<int64_t> rows(shape);
  rows.back() = 1;
  auto rowType = RankedTensorType::get(rows, i64);
  SmallVector<Value> indices;
  SmallVector<int64_t> sizes; // axes of one element have no index
  for (auto [axis, size] : llvm::enumerate(whole.drop_back()))
    if (size != 1) {
      indices.push_back(indicesOf(b, draw, rowType, int64_t(axis)));
      sizes.push_back(size);
    }
  Value first = b.slice(draw.random, 0, 0, 1);
  Value stream = b.slice(draw.random, 0, draw.stream + 1, 1);
  // The first row of a sample: a sample has several rows of axis 0.
  int64_t perSample = whole[0] / draw.samples;
  first = b.mul(first, double(perSample));
  if (whole[0] == 1 && !sizes.empty()) // then no index multiplies it
    first = b.mul(first, double(sizes[0]));
  auto half = [&](int64_t which) {
    return RandomKeyOp::create(b.builder, b.loc,
                               RankedTensorType::get(rows, i32), stream, first,
                               indices, sizes, which);
  };
  Value low = half(0), high = half(1);
  Value column = IotaOp::create(b.builder, b.loc,
                                RankedTensorType::get({shape.back()}, i32), 0);
  return BitsOp::create(b.builder, b.loc, RankedTensorType::get(shape, element),
                        low, high, column, arguments...);
}

template <typename Op>
static SmallVector<Value> decomposeDropout(Op op, OpBuilder &builder) {
  NNBuilder b(builder, op.getLoc());
  Draw draw(op);
  double ratio = op.getRatio().convertToDouble();
  int64_t threshold = random::dropBelow(ratio);
  Value keep = drawBits<RandomKeepOp>(b, draw, builder.getI1Type(), threshold);
  Value x = b.f32(b.reshape(op.getOperand(), draw.part));
  Value kept = b.select(keep, b.mul(x, 1.0 / (1.0 - ratio)), b.constant(0.0));
  kept = b.cast(kept, elementType(op.getOperand()));
  return {b.reshape(kept, shapeOf(op.getOperand()))};
}

FailureOr<SmallVector<Value>> DropoutOp::decompose(OpBuilder &builder) {
  return decomposeDropout(*this, builder);
}

FailureOr<SmallVector<Value>> PartDropoutOp::decompose(OpBuilder &builder) {
  return decomposeDropout(*this, builder);
}

FailureOr<SmallVector<Value>> RandomUniformOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value drawn =
      drawBits<RandomFractionOp>(b, Draw(*this), builder.getF32Type());
  return SmallVector<Value>{b.reshape(drawn, shapeOf(getResult()))};
}

//===----------------------------------------------------------------------===//
// random_key, random_keep, random_fraction
//===----------------------------------------------------------------------===//

LogicalResult RandomKeyOp::verify() {
  if (getIndices().size() != getSizes().size())
    return emitOpError("has ") << getIndices().size() << " indices and "
                               << getSizes().size() << " sizes";
  return success();
}

namespace {
/// Short spellings of wrapping integer arithmetic on vectors.
struct Bits {
  Value constant(Value like, uint64_t value) {
    Type type = like.getType(), element = getElementTypeOrSelf(type);
    unsigned width = element.getIntOrFloatBitWidth();
    TypedAttr attr =
        b.getIntegerAttr(element, APInt(width, value, /*isSigned=*/false,
                                        /*implicitTrunc=*/true));
    if (auto shaped = dyn_cast<ShapedType>(type))
      attr = DenseElementsAttr::get(shaped, Attribute(attr));
    return arith::ConstantOp::create(b, loc, type, attr);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value mul(Value x, uint64_t y) {
    return arith::MulIOp::create(b, loc, x, constant(x, y));
  }
  Value shiftRight(Value x, uint64_t y) {
    return arith::ShRUIOp::create(b, loc, x, constant(x, y));
  }
  Value xorShift(Value x, uint64_t y) {
    return arith::XOrIOp::create(b, loc, x, shiftRight(x, y));
  }
  OpBuilder &b;
  Location loc;
};
} // namespace

Value RandomKeyOp::emitVector(OpBuilder &builder, ValueRange vectors) {
  Bits v{builder, getLoc()};
  Value stream = vectors[0], row = vectors[1];
  SmallVector<Value> indices(vectors.drop_front(2));
  ArrayRef<int64_t> sizes = getSizes();
  // The row's number: `first` counts along axis 0.
  for (auto [axis, index] : llvm::enumerate(indices)) {
    if (axis > 0)
      row = v.mul(row, sizes[axis]);
    row = v.add(row, index);
  }
  Value x = v.add(stream, v.mul(row, random::kStep));
  x = v.mul(v.xorShift(x, random::kMixShifts[0]), random::kMix1);
  x = v.mul(v.xorShift(x, random::kMixShifts[1]), random::kMix2);
  x = v.xorShift(x, random::kMixShifts[2]);
  if (getHalf() == 1)
    x = v.shiftRight(x, 32);
  Type type = builder.getI32Type();
  if (auto shaped = dyn_cast<ShapedType>(x.getType()))
    type = shaped.clone(type);
  return arith::TruncIOp::create(builder, getLoc(), type, x);
}

Value nn::emitElementBits(OpBuilder &builder, Location loc, Value low,
                          Value high, Value column) {
  Bits v{builder, loc};
  Value x = v.add(column, low);
  x = v.mul(v.xorShift(x, random::kHashShifts[0]), random::kHash[0]);
  x = v.add(v.xorShift(x, random::kHashShifts[1]), high);
  x = v.mul(x, random::kHash[1]);
  x = v.mul(v.xorShift(x, random::kHashShifts[2]), random::kHash[2]);
  return v.xorShift(x, random::kHashShifts[3]);
}

Value RandomKeepOp::emitVector(OpBuilder &builder, ValueRange vectors) {
  Bits v{builder, getLoc()};
  Value x =
      emitElementBits(builder, getLoc(), vectors[0], vectors[1], vectors[2]);
  return arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::uge, x,
                               v.constant(x, getThreshold()));
}

Value RandomFractionOp::emitVector(OpBuilder &builder, ValueRange vectors) {
  Location loc = getLoc();
  Bits v{builder, loc};
  Value x = emitElementBits(builder, loc, vectors[0], vectors[1], vectors[2]);
  x = v.shiftRight(x, 32 - random::kFractionBits);
  Type type = builder.getF32Type();
  TypedAttr step = builder.getF32FloatAttr(random::kFractionStep);
  if (auto shaped = dyn_cast<ShapedType>(x.getType())) {
    type = shaped.clone(type);
    step = DenseElementsAttr::get(cast<ShapedType>(type), Attribute(step));
  }
  // No sign is left: signed conversion is one instruction.
  x = arith::SIToFPOp::create(builder, loc, type, x);
  return arith::MulFOp::create(
      builder, loc, x, arith::ConstantOp::create(builder, loc, type, step));
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

namespace {
/// The bits of elements by the definition in runtime/Random.h.
struct DrawnBits {
  DrawnBits(const Draw &draw, Interpreter &interpreter)
      : width(uint64_t(draw.whole.back())) {
    std::vector<Scalar> state = interpreter.get(draw.random).flatten();
    stream = uint64_t(state[draw.stream + 1].i);
    uint64_t rows = 1;
    for (int64_t size : ArrayRef(draw.whole).drop_back())
      rows *= uint64_t(size);
    first = uint64_t(state[0].i) * (rows / uint64_t(draw.samples));
  }
  /// Of a column of a row of the whole.
  uint32_t of(uint64_t row, uint64_t column) const {
    return random::elementBits(random::rowKey(stream, first + row),
                               uint32_t(column));
  }
  uint64_t width, stream, first;
};
} // namespace

/// `rowOf` tells where in the whole a row of the operand lies.
template <typename Op, typename RowOf>
static LogicalResult evaluateDropout(Op op, Interpreter &interpreter,
                                     RowOf rowOf) {
  if (!interpreter.allows(op))
    return failure();
  std::vector<Scalar> elements = interpreter.get(op.getOperand()).flatten();
  DrawnBits bits(Draw(op), interpreter);
  double ratio = op.getRatio().convertToDouble();
  for (auto [i, x] : llvm::enumerate(elements)) {
    bool kept = bits.of(rowOf(i / bits.width), i % bits.width) >=
                random::dropBelow(ratio);
    x.f = kept ? x.f / (1 - ratio) : 0;
  }
  return interpreter.set(op.getResult(), std::move(elements));
}

NN_EVALUATE(DropoutOp) {
  return evaluateDropout(*this, interpreter, [](uint64_t row) { return row; });
}

NN_EVALUATE(PartDropoutOp) {
  std::vector<Scalar> positions = interpreter.get(getPositions()).flatten();
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  uint64_t inner = 1, part = positions.size();
  for (int64_t size : shape.drop_back().drop_front(getDim() + 1))
    inner *= uint64_t(size);
  return evaluateDropout(*this, interpreter, [&](uint64_t row) {
    uint64_t index = row / inner, outer = index / part;
    auto at = uint64_t(positions[index % part].i);
    return (outer * uint64_t(getSize()) + at) * inner + row % inner;
  });
}

NN_EVALUATE(RandomUniformOp) {
  if (!interpreter.allows(*this))
    return failure();
  DrawnBits bits(Draw(*this), interpreter);
  std::vector<Scalar> elements(tensorType(getResult()).getNumElements());
  for (auto [i, x] : llvm::enumerate(elements))
    x.f = random::fractionOf(bits.of(i / bits.width, i % bits.width));
  return interpreter.set(getResult(), std::move(elements));
}

NN_EVALUATE(RandomKeyOp) {
  bool high = getHalf() == 1;
  ArrayRef<int64_t> sizes = getSizes();
  return interpreter.map(*this, [&](ArrayRef<Scalar> x) {
    auto row = uint64_t(x[1].i);
    for (auto [axis, size] : llvm::enumerate(sizes))
      row = (axis > 0 ? row * size : row) + uint64_t(x[2 + axis].i);
    uint64_t key = random::rowKey(uint64_t(x[0].i), row);
    return ofInt(int32_t(high ? key >> 32 : key));
  });
}

/// The bits of which low, high and column are `x`.
static uint32_t bitsOf(ArrayRef<Scalar> x) {
  uint64_t key = uint64_t(uint32_t(x[1].i)) << 32 | uint32_t(x[0].i);
  return random::elementBits(key, uint32_t(x[2].i));
}

NN_EVALUATE(RandomKeepOp) {
  auto threshold = uint64_t(getThreshold());
  return interpreter.map(
      *this, [&](ArrayRef<Scalar> x) { return ofInt(bitsOf(x) >= threshold); });
}

NN_EVALUATE(RandomFractionOp) {
  return interpreter.map(*this, [](ArrayRef<Scalar> x) {
    return ofFloat(random::fractionOf(bitsOf(x)));
  });
}
