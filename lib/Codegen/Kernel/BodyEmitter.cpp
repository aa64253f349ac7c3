// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values of a kernel's body on one vector, emitted as they are asked for.

#include "shardonnx/Codegen/Kernel/BodyEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/RandomBits.h"
#include "shardonnx/runtime/ABI.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

// An element has as many random bits of each key; the second word's differs
// from the step's by these.
static constexpr unsigned kWordBits = 32;
static constexpr int32_t kSecondWord = 0x2545f491;

Value BodyEmitter::emit(Value value, Scope &scope) {
  if (Value known = scope.values.lookup(value))
    return known;
  Value result;
  auto argument = dyn_cast<BlockArgument>(value);
  Value scalar = scope.scalars ? scope.scalars->lookup(value) : Value();
  Value kept = scope.rowBuffers ? scope.rowBuffers->lookup(value) : Value();
  if (scalar) {
    result = memory.splat(scalar, scope.width);
  } else if (kept) {
    Value address = memory.advance(kept, scope.index, 1, b.getF32Type());
    result = memory.load(address, b.getF32Type(), scope.width, 1);
  } else if (argument) {
    unsigned i = argument.getArgNumber();
    const BufferLayout &layout = kernel.getBuffers()[i];
    int64_t stride = layout.strides.back();
    Value address = memory.advance(scope.addresses[i], scope.index, stride,
                                   layout.elementType);
    result = memory.load(address, layout.elementType, scope.width, stride,
                         scope.alignmentOf(i));
  } else {
    result = emitOp(value.getDefiningOp(), scope);
    if (std::optional<RandomRounding> how = kernel.getRounding(value))
      result = roundAtRandom(result, *how, scope);
    if (std::optional<BlockArgument> lower = kernel.getLowerHalf(value))
      result = memory.joinHalves(result, emit(*lower, scope));
  }
  scope.values[value] = result;
  return result;
}

static void assumeNumbers(Operation *op) {
  op->setAttr(cast<arith::ArithFastMathInterface>(op).getFastMathAttrName(),
              arith::FastMathFlagsAttr::get(op->getContext(),
                                            arith::FastMathFlags::nnan |
                                                arith::FastMathFlags::nsz));
}

Value BodyEmitter::emitOp(Operation *op, Scope &scope) {
  if (auto constant = dyn_cast<nn::ConstantOp>(op))
    return emitConstant(constant, scope.width);
  if (auto iota = dyn_cast<nn::IotaOp>(op))
    return emitIota(iota, scope);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(emit(operand, scope));
  if (isa<nn::BroadcastOp>(op))
    return operands.front();
  Value result = cast<nn::ElementwiseOpInterface>(op).emitVector(b, operands);
  if (kernel.isOfNumbers(op->getResult(0)))
    assumeNumbers(result.getDefiningOp());
  // Whoever casts wants what is left behind the cast.
  if (isa<nn::CastOp>(op) && !nn::elementType(op->getOperand(0)).isInteger(1))
    return memory.round(result, nn::elementType(op->getResult(0)));
  return result;
}

Value BodyEmitter::emitConstant(nn::ConstantOp op, unsigned width) {
  auto elements = cast<ElementsAttr>(op.getValue());
  Type type = VectorMemory::computeType(elements.getElementType());
  Attribute value;
  if (isa<FloatType>(type)) {
    bool exact;
    APFloat f = *elements.value_begin<APFloat>();
    f.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &exact);
    value = FloatAttr::get(type, f);
  } else {
    value = IntegerAttr::get(type, *elements.value_begin<APInt>());
  }
  auto vectorType = VectorType::get(width, type);
  return arith::ConstantOp::create(b, loc,
                                   DenseElementsAttr::get(vectorType, value));
}

Value BodyEmitter::emitIota(nn::IotaOp op, Scope &scope) {
  Type element = VectorMemory::computeType(
      cast<RankedTensorType>(op.getType()).getElementType());
  auto i64 = VectorType::get(scope.width, b.getI64Type());
  std::optional<unsigned> axis = kernel.getIotaAxis(op);
  Value index;
  if (!axis) {
    index = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(i64, b.getI64IntegerAttr(0)));
  } else if (*axis < scope.leading.size()) {
    index = vector::BroadcastOp::create(b, loc, i64, scope.leading[*axis]);
  } else {
    SmallVector<int64_t> lanes(scope.width);
    std::iota(lanes.begin(), lanes.end(), 0);
    Value offsets = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(i64, ArrayRef(lanes)));
    Value first = vector::BroadcastOp::create(b, loc, i64, scope.index);
    index = arith::AddIOp::create(b, loc, first, offsets);
  }
  auto resultType = VectorType::get(scope.width, element);
  if (isa<FloatType>(element))
    return arith::SIToFPOp::create(b, loc, resultType, index);
  if (element.isInteger(64))
    return index;
  return arith::TruncIOp::create(b, loc, resultType, index);
}

/// The bits of runtime/Random.h: the element's place in its unit is the column,
/// the unit's number the upper half of the row's key, a step's key the lower.
Value BodyEmitter::roundAtRandom(Value vector, const RandomRounding &how,
                                 Scope &scope) {
  auto i32 = VectorType::get(scope.width, b.getI32Type());
  auto i64 = VectorType::get(scope.width, b.getI64Type());
  Value place = scope.index;
  if (!scope.leading.empty())
    place = arith::AddIOp::create(
        b, loc, place,
        arith::MulIOp::create(b, loc, scope.leading.front(),
                              memory.constant(kernel.getRowLength())));
  SmallVector<int32_t> lanes(scope.width);
  std::iota(lanes.begin(), lanes.end(), 0);
  Value first = emit(how.first, scope);
  Value column = arith::AddIOp::create(
      b, loc, first, vector::BroadcastOp::create(b, loc, i64, place));
  column = arith::AddIOp::create(
      b, loc, arith::TruncIOp::create(b, loc, i32, column),
      arith::ConstantOp::create(b, loc,
                                DenseElementsAttr::get(i32, ArrayRef(lanes))));
  Value shift = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(i64, b.getI64IntegerAttr(SHX_UNIT_SHIFT)));
  Value unit = arith::TruncIOp::create(
      b, loc, i32, arith::ShRUIOp::create(b, loc, first, shift));
  Value key = emit(how.key, scope);
  if (how.shift >= kWordBits)
    key = arith::XOrIOp::create(
        b, loc, key,
        arith::ConstantOp::create(
            b, loc,
            DenseElementsAttr::get(i32, b.getI32IntegerAttr(kSecondWord))));
  Value bits = nn::emitElementBits(b, loc, key, unit, column);
  return memory.roundAtRandom(vector, bits, how.shift % kWordBits);
}

void BodyEmitter::storeOutput(unsigned i, Scope &scope) {
  const BufferLayout &layout = kernel.getOutput(i);
  Value vector = emit(kernel.getYielded()[i], scope);
  int64_t stride = layout.strides.back();
  unsigned buffer = kernel.getNumInputs() + i;
  Value address = memory.advance(scope.addresses[buffer], scope.index, stride,
                                 layout.elementType);
  memory.store(vector, address, layout.elementType,
               scope.width == 1 ? 1 : stride, scope.alignmentOf(buffer));
}

void BodyEmitter::storeRowBuffer(Value value, Value buffer, Scope &scope) {
  Value vector = emit(value, scope);
  Value address = memory.advance(buffer, scope.index, 1, b.getF32Type());
  memory.store(vector, address, b.getF32Type(), 1);
}

void BodyEmitter::emitUniform(ArrayRef<Operation *> ops, Scope &scope) {
  for (Operation *op : ops)
    emit(op->getResult(0), scope);
}

SmallVector<Value> BodyEmitter::advanceAll(ArrayRef<Value> bases,
                                           ArrayRef<Value> leading) {
  SmallVector<Value> addresses;
  for (auto [base, layout] : llvm::zip_equal(bases, kernel.getBuffers())) {
    Value address = base;
    for (auto [axis, index] : llvm::enumerate(leading))
      address = memory.advance(address, index, layout.strides[axis],
                               layout.elementType);
    addresses.push_back(address);
  }
  return addresses;
}

Value kernels::initialAccumulator(OpBuilder &b, Location loc,
                                  Operation *reduction, unsigned width) {
  float start = isa<nn::ReduceMaxOp>(reduction)
                    ? -std::numeric_limits<float>::infinity()
                    : 0.0f;
  auto type = VectorType::get(width, b.getF32Type());
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, b.getF32FloatAttr(start)));
}

// A NaN is the maximum. Which of two zeros is left does not matter, and to tell
// them apart would take more instructions.
Value kernels::accumulate(OpBuilder &b, Location loc, Operation *reduction,
                          Value accumulator, Value vector) {
  if (isa<nn::ReduceMaxOp>(reduction))
    return arith::MaximumFOp::create(b, loc, vector, accumulator,
                                     arith::FastMathFlags::nsz);
  return arith::AddFOp::create(b, loc, accumulator, vector);
}

Value kernels::reduceLanes(OpBuilder &b, Location loc, Operation *reduction,
                           Value vector) {
  bool max = isa<nn::ReduceMaxOp>(reduction);
  auto kind =
      max ? vector::CombiningKind::MAXIMUMF : vector::CombiningKind::ADD;
  // Any order of the lanes is as good as another: a tree of shuffles.
  Value one = vector::ReductionOp::create(b, loc, kind, vector,
                                          arith::FastMathFlags::reassoc |
                                              arith::FastMathFlags::nsz);
  return vector::BroadcastOp::create(b, loc, VectorType::get(1, b.getF32Type()),
                                     one);
}

Value kernels::finishReduction(OpBuilder &b, Location loc, Operation *reduction,
                               Value vector, int64_t count) {
  if (!isa<nn::ReduceMeanOp>(reduction))
    return vector;
  auto type = cast<VectorType>(vector.getType());
  Value factor = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, b.getF32FloatAttr(1.0f / count)));
  return arith::MulFOp::create(b, loc, vector, factor);
}

unsigned kernels::costOf(Operation *op) {
  if (isa<nn::ConstantOp, nn::BroadcastOp>(op))
    return 0;
  if (isa<nn::PowOp>(op))
    return 100;
  if (isa<nn::ExpOp, nn::LogOp, nn::TanhOp, nn::ErfOp, nn::SigmoidOp,
          nn::SiluOp, nn::GeluOp, nn::SinOp, nn::CosOp>(op))
    return 24;
  if (isa<nn::RandomKeyOp, nn::RandomKeepOp, nn::RandomFractionOp>(op))
    return 12;
  if (isa<nn::DivOp, nn::SqrtOp, nn::RsqrtOp, nn::ReciprocalOp>(op))
    return 6;
  return 1;
}
