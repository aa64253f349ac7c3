// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers, naive evaluation and comparison of kernels for the tests.

#include "kernel_harness.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"
#include "shardonnx/runtime/Random.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

static int64_t bytesOf(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

Buffer Buffer::make(RankedTensorType tensor, Layout layout,
                    std::mt19937 &random) {
  int64_t rank = tensor.getRank(), size = 1;
  SmallVector<int64_t> order(rank), strides(rank);
  std::iota(order.begin(), order.end(), 0);
  if (layout == Layout::Transposed)
    std::shuffle(order.begin(), order.end(), random);
  if (layout == Layout::Columns && tensor.getElementTypeBitWidth() == 8)
    std::rotate(order.begin(), order.end() - 1, order.end());
  for (int64_t i = rank; i-- > 0;) {
    strides[order[i]] = size;
    size *= tensor.getDimSize(order[i]);
    if (layout == Layout::Padded || layout == Layout::Transposed)
      size += random() % 5;
  }
  Buffer buffer;
  auto map = StridedLayoutAttr::get(tensor.getContext(), 0, strides);
  buffer.type =
      MemRefType::get(tensor.getShape(), tensor.getElementType(), map);
  buffer.bytes.assign(
      std::max<int64_t>(1, size) * bytesOf(tensor.getElementType()), 0x55);
  return buffer;
}

int64_t Buffer::offsetOf(ArrayRef<int64_t> index) const {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  (void)type.getStridesAndOffset(strides, offset);
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    offset += i * stride;
  return offset * bytesOf(type.getElementType());
}

template <typename T> static T readAs(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

double Buffer::read(ArrayRef<int64_t> index) const {
  const uint8_t *at = bytes.data() + offsetOf(index);
  Type element = type.getElementType();
  if (auto floatType = dyn_cast<FloatType>(element)) {
    unsigned width = element.getIntOrFloatBitWidth();
    APInt bits(width, width == 32   ? readAs<uint32_t>(at)
                      : width == 16 ? readAs<uint16_t>(at)
                                    : *at);
    return APFloat(floatType.getFloatSemantics(), bits).convertToDouble();
  }
  if (element.isInteger(64))
    return static_cast<double>(readAs<int64_t>(at));
  if (element.isInteger(32))
    return readAs<int32_t>(at);
  return *at;
}

void Buffer::write(ArrayRef<int64_t> index, double value) {
  uint8_t *at = bytes.data() + offsetOf(index);
  Type element = type.getElementType();
  int64_t raw = static_cast<int64_t>(value);
  if (auto floatType = dyn_cast<FloatType>(element)) {
    APFloat f(value);
    bool lost;
    f.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven,
              &lost);
    raw = f.bitcastToAPInt().getZExtValue();
  }
  std::memcpy(at, &raw, bytesOf(element));
}

/// Calls with every index of a shape, in row-major order.
static void forEachIndex(ArrayRef<int64_t> shape,
                         llvm::function_ref<void(ArrayRef<int64_t>)> body) {
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t count = ShapedType::getNumElements(shape);
  for (int64_t n = 0; n < count; ++n) {
    body(index);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

Dense test::toDense(const Buffer &buffer) {
  Dense dense;
  dense.shape.assign(buffer.type.getShape().begin(),
                     buffer.type.getShape().end());
  forEachIndex(dense.shape, [&](ArrayRef<int64_t> index) {
    dense.values.push_back(buffer.read(index));
  });
  return dense;
}

/// The element of a broadcast operand at an index of the result.
static double at(const Dense &dense, ArrayRef<int64_t> index) {
  int64_t offset = 0;
  size_t lead = index.size() - dense.shape.size();
  for (auto [i, size] : llvm::enumerate(dense.shape))
    offset = offset * size + (size == 1 ? 0 : index[lead + i]);
  return dense.values[offset];
}

static bool compare(nn::ComparePredicate predicate, double x, double y) {
  switch (predicate) {
  case nn::ComparePredicate::eq:
    return x == y;
  case nn::ComparePredicate::ne:
    return x != y;
  case nn::ComparePredicate::lt:
    return x < y;
  case nn::ComparePredicate::le:
    return x <= y;
  case nn::ComparePredicate::gt:
    return x > y;
  case nn::ComparePredicate::ge:
    return x >= y;
  }
  return false;
}

static double evaluateGelu(nn::GeluOp op, double x) {
  if (op.getTanh())
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

/// Half of a row's key, as what an i32 holds.
static double evaluateKey(nn::RandomKeyOp op, ArrayRef<double> x) {
  auto row = static_cast<uint64_t>(x[1]);
  for (auto [axis, size] : llvm::enumerate(op.getSizes()))
    row = (axis > 0 ? row * size : row) + static_cast<uint64_t>(x[2 + axis]);
  uint64_t key = random::rowKey(static_cast<uint64_t>(x[0]), row);
  return static_cast<uint32_t>(op.getHalf() == 1 ? key >> 32 : key);
}

static double evaluateKeep(nn::RandomKeepOp op, ArrayRef<double> x) {
  uint64_t key =
      static_cast<uint64_t>(x[1]) << 32 | static_cast<uint64_t>(x[0]);
  return random::elementBits(key, static_cast<uint32_t>(x[2])) >=
         static_cast<uint64_t>(op.getThreshold());
}

/// As the format holds it, at most the largest.
static double evaluateF8(nn::F8CastOp op, double value) {
  auto type = cast<FloatType>(nn::elementType(op.getResult()));
  APFloat largest = APFloat::getLargest(type.getFloatSemantics());
  double limit = largest.convertToDouble();
  APFloat rounded(std::clamp(value, -limit, limit));
  bool lost;
  rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &lost);
  return rounded.convertToDouble();
}

static double evaluateElement(Operation *op, ArrayRef<double> x) {
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<nn::NegOp>([&](auto) { return -x[0]; })
      .Case<nn::ExpOp>([&](auto) { return std::exp(x[0]); })
      .Case<nn::LogOp>([&](auto) { return std::log(x[0]); })
      .Case<nn::SqrtOp>([&](auto) { return std::sqrt(x[0]); })
      .Case<nn::RsqrtOp>([&](auto) { return 1 / std::sqrt(x[0]); })
      .Case<nn::ReciprocalOp>([&](auto) { return 1 / x[0]; })
      .Case<nn::TanhOp>([&](auto) { return std::tanh(x[0]); })
      .Case<nn::ErfOp>([&](auto) { return std::erf(x[0]); })
      .Case<nn::SigmoidOp>([&](auto) { return 1 / (1 + std::exp(-x[0])); })
      .Case<nn::SiluOp>([&](auto) { return x[0] / (1 + std::exp(-x[0])); })
      .Case<nn::ReluOp>([&](auto) { return std::max(x[0], 0.0); })
      .Case<nn::AbsOp>([&](auto) { return std::fabs(x[0]); })
      .Case<nn::SinOp>([&](auto) { return std::sin(x[0]); })
      .Case<nn::CosOp>([&](auto) { return std::cos(x[0]); })
      .Case<nn::GeluOp>([&](nn::GeluOp g) { return evaluateGelu(g, x[0]); })
      .Case<nn::CastOp>([&](nn::CastOp cast) {
        Type to = nn::elementType(cast.getResult());
        if (to.isInteger(1))
          return x[0] != 0 ? 1.0 : 0.0;
        if (isa<IntegerType>(to))
          return std::trunc(x[0]);
        return to.isF32() ? x[0] : nn::roundTo(x[0], to);
      })
      .Case([&](nn::F8CastOp f8) { return evaluateF8(f8, x[0] / x[1]); })
      .Case<nn::BroadcastOp>([&](auto) { return x[0]; })
      .Case<nn::AddOp>([&](auto) { return x[0] + x[1]; })
      .Case<nn::SubOp>([&](auto) { return x[0] - x[1]; })
      .Case<nn::MulOp>([&](auto) { return x[0] * x[1]; })
      .Case<nn::DivOp>([&](auto) { return x[0] / x[1]; })
      .Case<nn::PowOp>([&](auto) { return std::pow(x[0], x[1]); })
      .Case<nn::MaxOp>([&](auto) { return std::max(x[0], x[1]); })
      .Case<nn::MinOp>([&](auto) { return std::min(x[0], x[1]); })
      .Case<nn::AndOp>([&](auto) { return x[0] * x[1]; })
      .Case<nn::OrOp>([&](auto) { return std::max(x[0], x[1]); })
      .Case<nn::SelectOp>([&](auto) { return x[0] != 0 ? x[1] : x[2]; })
      .Case([&](nn::RandomKeyOp key) { return evaluateKey(key, x); })
      .Case([&](nn::RandomKeepOp keep) { return evaluateKeep(keep, x); })
      .Case<nn::CompareOp>([&](nn::CompareOp c) {
        return compare(c.getPredicate(), x[0], x[1]) ? 1.0 : 0.0;
      })
      .Default([&](Operation *other) {
        ADD_FAILURE() << "no evaluation of "
                      << other->getName().getStringRef().str();
        return 0.0;
      });
}

static Dense evaluateReduction(Operation *op, const Dense &operand) {
  Dense result;
  auto type = nn::tensorType(op->getResult(0));
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  bool max = isa<nn::ReduceMaxOp>(op);
  result.values.assign(type.getNumElements(), max ? -INFINITY : 0.0);
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
  forEachIndex(operand.shape, [&](ArrayRef<int64_t> index) {
    int64_t offset = 0;
    for (auto [axis, size] : llvm::enumerate(operand.shape))
      if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
        offset = offset * size + index[axis];
    double &total = result.values[offset];
    double value = at(operand, index);
    if (max) // a NaN is the maximum
      total = std::isnan(total) || value <= total ? total : value;
    else
      total += value;
  });
  double count = operand.values.size() / double(result.values.size());
  if (isa<nn::ReduceMeanOp>(op))
    for (double &value : result.values)
      value /= count;
  return result;
}

/// The least power of two with which the largest value is one of the format.
static Dense evaluateTensorStep(nn::F8TensorStepOp op,
                                ArrayRef<Dense> operands) {
  double amax = 0;
  for (const Dense &operand : operands)
    for (double value : operand.values)
      amax = std::max(amax, std::fabs(value));
  double largest = op.getFormat() == nn::F8Format::e4m3 ? 448 : 57344;
  return {{1}, {std::exp2(std::ceil(std::log2(amax / largest)))}};
}

std::vector<Dense> test::evaluate(nn::FusedOp fused, ArrayRef<Dense> inputs) {
  DenseMap<Value, Dense> values;
  Block &body = fused.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), inputs))
    values[argument] = input;
  for (Operation &op : body.without_terminator()) {
    Value result = op.getResult(0);
    if (nn::isReduction(&op)) {
      values[result] = evaluateReduction(&op, values[op.getOperand(0)]);
      continue;
    }
    if (auto step = dyn_cast<nn::F8TensorStepOp>(op)) {
      SmallVector<Dense> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values[operand]);
      values[result] = evaluateTensorStep(step, operands);
      continue;
    }
    Dense dense;
    dense.shape.assign(nn::shapeOf(result).begin(), nn::shapeOf(result).end());
    forEachIndex(dense.shape, [&](ArrayRef<int64_t> index) {
      if (auto iota = dyn_cast<nn::IotaOp>(op)) {
        dense.values.push_back(index[iota.getAxis()]);
        return;
      }
      if (isa<nn::ConstantOp>(op)) {
        dense.values.push_back(*nn::getSplat(result));
        return;
      }
      SmallVector<double> operands;
      for (Value operand : op.getOperands())
        operands.push_back(at(values[operand], index));
      dense.values.push_back(evaluateElement(&op, operands));
    });
    values[result] = std::move(dense);
  }
  // What is stored is rounded there: within half a unit of what is cast.
  std::vector<Dense> outputs;
  for (Value value : body.getTerminator()->getOperands()) {
    outputs.push_back(values[value]);
    if (auto cast = value.getDefiningOp<nn::CastOp>())
      for (auto [to, from] : llvm::zip_equal(outputs.back().values,
                                             values[cast.getOperand()].values))
        to = std::isfinite(to) && isa<FloatType>(nn::elementType(value)) ? from
                                                                         : to;
  }
  return outputs;
}

ParsedGroup::ParsedGroup(StringRef text) {
  context = std::make_unique<MLIRContext>();
  context
      ->loadDialect<nn::NNDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect,
                    vector::VectorDialect, LLVM::LLVMDialect>();
  module = parseSourceString<ModuleOp>(text, context.get());
  if (module)
    module->walk([&](nn::FusedOp op) { fused = op; });
}

/// A value that the element type holds, so that inputs are exact.
static double randomElement(Type element, std::mt19937 &random) {
  if (element.isInteger(1))
    return random() % 2;
  if (isa<IntegerType>(element))
    return static_cast<int>(random() % 7) - 3;
  return std::normal_distribution<double>(0.0, 1.5)(random);
}

static void fill(Buffer &buffer, std::mt19937 &random) {
  Type element = buffer.type.getElementType();
  forEachIndex(buffer.type.getShape(), [&](ArrayRef<int64_t> index) {
    buffer.write(index, randomElement(element, random));
  });
}

static void expectNear(const Buffer &buffer, const Dense &expected,
                       double tolerance) {
  Dense actual = toDense(buffer);
  double scale = 1e-30;
  for (double value : expected.values)
    if (std::isfinite(value))
      scale = std::max(scale, std::fabs(value));
  if (buffer.type.getElementType().isBF16())
    tolerance = std::max(tolerance, 0x1p-8);
  if (buffer.type.getElementType().isF16())
    tolerance = std::max(tolerance, 0x1p-11);
  if (buffer.type.getElementTypeBitWidth() == 8)
    tolerance = std::max(tolerance, 0x1p-3);
  for (size_t i = 0; i < actual.values.size(); ++i) {
    double x = actual.values[i], y = expected.values[i];
    if (std::isnan(x) && std::isnan(y))
      continue;
    if (x == y)
      continue;
    ASSERT_LE(std::fabs(x - y), tolerance * std::max(std::fabs(y), scale / 8))
        << "element " << i << ": " << x << ", expected " << y;
  }
}

void test::checkGroup(StringRef text, Layout layout, unsigned seed,
                      double tolerance, StringRef arch, bool inPlace) {
  ParsedGroup group(text);
  ASSERT_TRUE(group.fused) << text.str();
  std::mt19937 random(seed);
  std::vector<Buffer> buffers;
  std::vector<Dense> inputs;
  for (Type type : group.fused.getInputs().getTypes()) {
    buffers.push_back(
        Buffer::make(cast<RankedTensorType>(type), layout, random));
    fill(buffers.back(), random);
    inputs.push_back(toDense(buffers.back()));
  }
  size_t numInputs = buffers.size();
  for (Type type : group.fused.getOutputs().getTypes())
    buffers.push_back(
        Buffer::make(cast<RankedTensorType>(type), layout, random));
  // What a step is joined in is zero before.
  for (auto [i, yielded] : llvm::enumerate(
           group.fused.getBody().front().getTerminator()->getOperands()))
    if (yielded.getDefiningOp<nn::F8TensorStepOp>())
      llvm::fill(buffers[numInputs + i].bytes, 0);
  if (inPlace)
    buffers[numInputs] = buffers[0];

  SmallVector<MemRefType> types;
  for (const Buffer &buffer : buffers)
    types.push_back(buffer.type);
  std::unique_ptr<KernelRunner> kernel = makeRunner(group.fused, types, arch);
  ASSERT_TRUE(kernel);

  std::vector<Buffer> again(buffers);
  auto pointersOf = [&](std::vector<Buffer> &all) {
    SmallVector<Buffer *> pointers;
    for (Buffer &buffer : all)
      pointers.push_back(&buffer);
    if (inPlace)
      pointers[0] = pointers[numInputs];
    return pointers;
  };
  kernel->run(pointersOf(buffers));
  kernel->runOtherwise(pointersOf(again), random);
  std::vector<Dense> expected = evaluate(group.fused, inputs);
  for (auto [i, dense] : llvm::enumerate(expected)) {
    SCOPED_TRACE("output " + std::to_string(i) + ", layout " +
                 std::to_string(static_cast<int>(layout)) + ", seed " +
                 std::to_string(seed));
    expectNear(buffers[numInputs + i], dense, tolerance);
    EXPECT_EQ(buffers[numInputs + i].bytes, again[numInputs + i].bytes)
        << "another run gives other bits";
  }
}
