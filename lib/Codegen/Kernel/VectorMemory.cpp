// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads, stores and the conversions between types in memory and in registers.

#include "shardonnx/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

Type VectorMemory::computeType(Type elementType) {
  if (isa<FloatType>(elementType))
    return Float32Type::get(elementType.getContext());
  return elementType;
}

static bool isF8(Type elementType) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(elementType);
}

/// What a load or store instruction sees: bf16 and f8 as bits, i1 as a byte.
Type VectorMemory::storedType(Type elementType) {
  MLIRContext *context = elementType.getContext();
  if (elementType.isBF16())
    return IntegerType::get(context, 16);
  if (elementType.isInteger(1) || isF8(elementType))
    return IntegerType::get(context, 8);
  return elementType;
}

static unsigned alignmentOf(Type stored) {
  return stored.getIntOrFloatBitWidth() / 8;
}

static Value splatInt(OpBuilder &b, Location loc, Type vector, int64_t value) {
  auto type = cast<VectorType>(vector);
  return arith::ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(type,
                             b.getIntegerAttr(type.getElementType(), value)));
}

Value VectorMemory::constant(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, 64);
}

Value VectorMemory::advance(Value base, Value index, int64_t stride,
                            Type elementType) {
  if (stride == 0)
    return base;
  Value offset = index;
  if (stride != 1)
    offset = arith::MulIOp::create(b, loc, index, constant(stride));
  return LLVM::GEPOp::create(b, loc, base.getType(), storedType(elementType),
                             base, ValueRange{offset});
}

Value VectorMemory::element(Value address, unsigned index, int64_t stride,
                            Type stored) {
  int64_t offset = static_cast<int64_t>(index) * stride;
  if (offset == 0)
    return address;
  return advance(address, constant(offset), 1, stored);
}

Value VectorMemory::load(Value address, Type elementType, unsigned width,
                         int64_t stride, unsigned alignment) {
  Type stored = storedType(elementType);
  auto vectorType = VectorType::get(width, stored);
  Value loaded;
  if (stride == 1) {
    loaded = LLVM::LoadOp::create(b, loc, vectorType, address,
                                  std::max(alignment, alignmentOf(stored)));
  } else if (stride == 0) {
    Value one =
        LLVM::LoadOp::create(b, loc, stored, address, alignmentOf(stored));
    loaded = vector::BroadcastOp::create(b, loc, vectorType, one);
  } else {
    SmallVector<Value> lanes;
    for (unsigned lane = 0; lane < width; ++lane)
      lanes.push_back(LLVM::LoadOp::create(
          b, loc, stored, element(address, lane, stride, stored),
          alignmentOf(stored)));
    loaded = vector::FromElementsOp::create(b, loc, vectorType, lanes);
  }
  return fromStored(loaded, elementType);
}

void VectorMemory::store(Value vector, Value address, Type elementType,
                         int64_t stride, unsigned alignment) {
  Type stored = storedType(elementType);
  Value value = toStored(vector, elementType);
  if (stride == 1) {
    LLVM::StoreOp::create(b, loc, value, address,
                          std::max(alignment, alignmentOf(stored)));
    return;
  }
  int64_t width = cast<VectorType>(value.getType()).getNumElements();
  for (int64_t lane = 0; lane < width; ++lane) {
    Value one = vector::ExtractOp::create(b, loc, value, lane);
    LLVM::StoreOp::create(b, loc, one, element(address, lane, stride, stored),
                          alignmentOf(stored));
  }
}

Value VectorMemory::splat(Value one, unsigned width) {
  if (auto type = dyn_cast<VectorType>(one.getType())) {
    if (type.getNumElements() == width)
      return one;
    one = vector::ExtractOp::create(b, loc, one, int64_t(0));
  }
  return vector::BroadcastOp::create(
      b, loc, VectorType::get(width, one.getType()), one);
}

/// A bf16 is the upper half of an f32. Where registers hold two of them, each
/// pair takes a shift and a mask.
Value VectorMemory::widenBF16(Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  auto f32 = VectorType::get(width, b.getF32Type());
  auto i32 = VectorType::get(width, b.getI32Type());
  if (!target.packedPairs || width % 2 != 0) {
    Value bits = arith::ExtUIOp::create(b, loc, i32, vector);
    bits = arith::ShLIOp::create(b, loc, bits, splatInt(b, loc, i32, 16));
    return arith::BitcastOp::create(b, loc, f32, bits);
  }
  auto pairs = VectorType::get(width / 2, b.getI32Type());
  auto half = VectorType::get(width / 2, b.getF32Type());
  Value words = vector::BitCastOp::create(b, loc, pairs, vector);
  Value even =
      arith::ShLIOp::create(b, loc, words, splatInt(b, loc, pairs, 16));
  Value odd =
      arith::AndIOp::create(b, loc, words, splatInt(b, loc, pairs, -0x10000));
  return vector::InterleaveOp::create(
      b, loc, f32, arith::BitcastOp::create(b, loc, half, even),
      arith::BitcastOp::create(b, loc, half, odd));
}

Value VectorMemory::fromStored(Value vector, Type elementType) {
  auto type = cast<VectorType>(vector.getType());
  VectorType f32 = VectorType::get(type.getShape(), b.getF32Type());
  if (elementType.isBF16())
    return widenBF16(vector);
  if (elementType.isF16())
    return arith::ExtFOp::create(b, loc, f32, vector);
  if (elementType.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, vector,
                                 splatInt(b, loc, type, 0));
  return vector;
}

/// Round to nearest even on the bits: add half of what is cut off, less one
/// when the part that stays is even. A NaN stays one by its quiet bit.
Value VectorMemory::roundToBF16(Value vector) {
  ArrayRef<int64_t> shape = cast<VectorType>(vector.getType()).getShape();
  auto i16 = VectorType::get(shape, b.getI16Type());
  if (target.nativeBF16) {
    auto bf16 = VectorType::get(shape, b.getBF16Type());
    Value rounded = arith::TruncFOp::create(b, loc, bf16, vector);
    return arith::BitcastOp::create(b, loc, i16, rounded);
  }
  auto i32 = VectorType::get(shape, b.getI32Type());
  Value sixteen = splatInt(b, loc, i32, 16);
  Value bits = arith::BitcastOp::create(b, loc, i32, vector);
  Value high = arith::ShRUIOp::create(b, loc, bits, sixteen);
  Value odd = arith::AndIOp::create(b, loc, high, splatInt(b, loc, i32, 1));
  Value half =
      arith::AddIOp::create(b, loc, odd, splatInt(b, loc, i32, 0x7fff));
  Value rounded = arith::AddIOp::create(b, loc, bits, half);
  rounded = arith::ShRUIOp::create(b, loc, rounded, sixteen);
  Value quiet = arith::OrIOp::create(b, loc, high, splatInt(b, loc, i32, 0x40));
  Value isNaN =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, vector, vector);
  rounded = arith::SelectOp::create(b, loc, isNaN, quiet, rounded);
  return arith::TruncIOp::create(b, loc, i16, rounded);
}

/// GPUs alone store 8 bits, two elements with an instruction (sm_89). What is
/// larger than the largest is the largest; NaN stays.
static Value roundToF8(OpBuilder &b, Location loc, Value vector, Type element) {
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  StringRef intrinsic = isa<Float8E4M3FNType>(element)
                            ? "llvm.nvvm.ff.to.e4m3x2.rn"
                            : "llvm.nvvm.ff.to.e5m2x2.rn";
  SmallVector<Value> pairs;
  for (int64_t lane = 0; lane < width; lane += 2) {
    Value low = vector::ExtractOp::create(b, loc, vector, lane), high = low;
    if (lane + 1 < width)
      high = vector::ExtractOp::create(b, loc, vector, lane + 1);
    auto pair = LLVM::CallIntrinsicOp::create(b, loc, b.getI16Type(),
                                              b.getStringAttr(intrinsic),
                                              ValueRange{high, low});
    pairs.push_back(pair.getResult(0));
  }
  auto words =
      VectorType::get(static_cast<int64_t>(pairs.size()), b.getI16Type());
  Value packed = vector::FromElementsOp::create(b, loc, words, pairs);
  auto bytes =
      VectorType::get(static_cast<int64_t>(pairs.size()) * 2, b.getI8Type());
  Value stored = vector::BitCastOp::create(b, loc, bytes, packed);
  if (width % 2 == 0)
    return stored;
  return vector::ExtractStridedSliceOp::create(b, loc, stored, {0}, {width},
                                               {1});
}

Value VectorMemory::roundAtRandom(Value vector, Value bits, unsigned shift) {
  ArrayRef<int64_t> shape = cast<VectorType>(vector.getType()).getShape();
  auto i32 = VectorType::get(shape, b.getI32Type());
  auto constant = [&](int64_t value) { return splatInt(b, loc, i32, value); };
  if (shift > 0)
    bits = arith::ShRUIOp::create(b, loc, bits, constant(shift));
  bits = arith::AndIOp::create(b, loc, bits, constant(0xffff));
  Value sum = arith::AddIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, i32, vector), bits);
  sum = arith::AndIOp::create(b, loc, sum, constant(-0x10000));
  Value rounded = arith::BitcastOp::create(b, loc, vector.getType(), sum);
  Value isNaN =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, vector, vector);
  return arith::SelectOp::create(b, loc, isNaN, vector, rounded);
}

Value VectorMemory::joinHalves(Value upper, Value lower) {
  ArrayRef<int64_t> shape = cast<VectorType>(upper.getType()).getShape();
  auto i32 = VectorType::get(shape, b.getI32Type());
  Value bits = arith::AddIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, i32, upper),
      arith::ExtSIOp::create(b, loc, i32, lower));
  return arith::BitcastOp::create(b, loc, upper.getType(), bits);
}

/// A tie that is rounded down leaves one more than 16 bits hold.
Value VectorMemory::lowerHalf(Value vector) {
  ArrayRef<int64_t> shape = cast<VectorType>(vector.getType()).getShape();
  auto i16 = VectorType::get(shape, b.getI16Type());
  auto i32 = VectorType::get(shape, b.getI32Type());
  Value upper = fromStored(roundToBF16(vector), b.getBF16Type());
  Value rest = arith::SubIOp::create(
      b, loc, arith::BitcastOp::create(b, loc, i32, vector),
      arith::BitcastOp::create(b, loc, i32, upper));
  rest = arith::MinSIOp::create(b, loc, rest, splatInt(b, loc, i32, INT16_MAX));
  rest = arith::MaxSIOp::create(b, loc, rest, splatInt(b, loc, i32, INT16_MIN));
  return arith::TruncIOp::create(b, loc, i16, rest);
}

Value VectorMemory::round(Value vector, Type elementType) {
  if (!elementType.isF16() && !elementType.isBF16())
    return vector;
  Value stored = toStored(vector, elementType);
  Value rounded = fromStored(stored, elementType);
  storedForms[rounded] = stored;
  return rounded;
}

Value VectorMemory::toStored(Value vector, Type elementType) {
  if (elementType.isInteger(16) && isa<FloatType>(getElementTypeOrSelf(vector)))
    return lowerHalf(vector);
  if (Value stored = storedForms.lookup(vector);
      stored && getElementTypeOrSelf(stored) == storedType(elementType))
    return stored;
  ArrayRef<int64_t> shape = cast<VectorType>(vector.getType()).getShape();
  if (elementType.isBF16())
    return roundToBF16(vector);
  if (isF8(elementType))
    return roundToF8(b, loc, vector, elementType);
  if (elementType.isF16())
    return arith::TruncFOp::create(b, loc, VectorType::get(shape, elementType),
                                   vector);
  if (elementType.isInteger(1))
    return arith::ExtUIOp::create(b, loc, VectorType::get(shape, b.getI8Type()),
                                  vector);
  return vector;
}
