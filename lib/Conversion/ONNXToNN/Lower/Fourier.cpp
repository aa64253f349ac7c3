// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers discrete Fourier transforms: products with known matrices of cosines
// and sines, which have a gradient. A length that is a product is transformed
// by its two factors, one after the other (Cooley and Tukey 1965), where that
// takes fewer operations.

#include "Rearrange.h"

#include <cmath>
#include <utility>

using namespace mlir;

namespace shardonnx {
namespace {

/// A transform of `length` points along an axis. The last axis of an operand is
/// 1 (real) or 2 (real and imaginary part).
struct Transform {
  int64_t length;
  bool inverse, oneSided;
  int64_t points, parts; // of the operand, along its axis and the last one

  /// Frequencies of a real signal, of which the others are conjugates.
  int64_t half() const { return length / 2 + 1; }
  bool makesReal() const { return oneSided && inverse; }
  int64_t resultPoints() const {
    return oneSided && !inverse ? half() : length;
  }
  int64_t resultParts() const { return makesReal() ? 1 : 2; }
  int64_t elements() const {
    return points * parts * resultPoints() * resultParts();
  }
  /// Points of the operand that count.
  int64_t used() const {
    return std::min(points, makesReal() ? half() : length);
  }
  double weight(int64_t point, bool imaginary, int64_t result,
                bool resultImaginary) const;
  /// The factors of its length, or one of them 1.
  std::pair<int64_t, int64_t> factors() const;
};

/// At most so many elements of its matrix: 64 MiB.
constexpr int64_t mostElements = 1 << 24;
/// Points of all frames together.
constexpr int64_t mostIndices = 1 << 26;

} // namespace

/// What a part of a number counts in a part of its product with e^(-i·angle),
/// or e^(i·angle).
static double rotation(double angle, bool inverse, bool imaginary,
                       bool resultImaginary) {
  // At right angles exactly 0: frequencies that are real have no phase.
  auto exact = [](double value) {
    return std::fabs(value) < 1e-12 ? 0 : value;
  };
  if (imaginary == resultImaginary)
    return exact(std::cos(angle));
  double sine = exact(inverse ? std::sin(angle) : -std::sin(angle));
  return imaginary ? 0 - sine : sine;
}

/// What a part of a point of the operand counts in a part of one of the result.
double Transform::weight(int64_t point, bool imaginary, int64_t result,
                         bool resultImaginary) const {
  // The angle of a multiple of the turn is exact.
  double angle = 2 * M_PI * double(point * result % length) / double(length);
  double scale = inverse ? 1.0 / double(length) : 1.0;
  if (makesReal()) {
    // Frequencies that are their own conjugates are real, and counted once.
    bool own = point == 0 || 2 * point == length;
    if (own && imaginary)
      return 0;
    scale *= own ? 1 : 2;
  }
  return scale * rotation(angle, inverse, imaginary, resultImaginary);
}

std::pair<int64_t, int64_t> Transform::factors() const {
  // What moving a point costs, three times there and back, in products.
  constexpr int64_t kMoves = 256;
  if (points != (makesReal() ? half() : length))
    return {length, 1};
  for (int64_t first = int64_t(std::sqrt(double(length))); first > 1; --first) {
    if (length % first != 0)
      continue;
    int64_t second = length / first, from = makesReal() ? 2 : parts;
    int64_t whole = points * parts * resultPoints() * resultParts();
    bool pays = (from * 2 * first + 2 * 2 * second + kMoves) * length < whole;
    if (pays && length <= mostElements / (4 * second))
      return {first, second};
    break;
  }
  return {length, 1};
}

/// [points·parts, resultPoints·resultParts]
static Value matrixOf(Lowering &l, const Transform &t, Type type) {
  std::vector<Scalar> values;
  values.reserve(size_t(t.elements()));
  for (int64_t point = 0; point < t.points; ++point)
    for (int64_t part = 0; part < t.parts; ++part)
      for (int64_t result = 0; result < t.resultPoints(); ++result)
        for (int64_t half = 0; half < t.resultParts(); ++half) {
          Scalar weight;
          weight.f = point < t.used()
                         ? t.weight(point, part == 1, result, half == 1)
                         : 0;
          values.push_back(weight);
        }
  return l.constant(HostTensor::dense(
      {t.points * t.parts, t.resultPoints() * t.resultParts()}, type,
      std::move(values)));
}

static Value multiply(Lowering &l, Value lhs, Value rhs) {
  return nn::MatmulOp::create(l.builder, l.loc, lhs, rhs);
}

/// The frequencies of a real signal and their conjugates: [rows, length, 2] of
/// [rows, half, 2].
static Value wholeSpectrum(Lowering &l, const Transform &t, Value half) {
  int64_t others = t.length - t.half();
  Value mirrored = reverseAxis(l, l.slice(half, 1, 1, others), 1);
  Value signs = l.constant(
      HostTensor::dense({2}, elementType(half), {ofFloat(1), ofFloat(-1)}));
  return join(l, {half, l.mul(mirrored, signs)}, 1);
}

/// For each frequency k of the first factor, the transform of the second one,
/// whose points it turns by k / length first: [first, second·2, second·parts].
static Value turnedMatrices(Lowering &l, const Transform &t, int64_t first,
                            int64_t second, Type type) {
  std::vector<Scalar> values;
  int64_t parts = t.resultParts();
  values.reserve(size_t(first * second * 2 * second * parts));
  double scale = t.inverse ? 1.0 / double(second) : 1.0;
  for (int64_t k = 0; k < first; ++k)
    for (int64_t point = 0; point < 2 * second; ++point)
      for (int64_t result = 0; result < parts * second; ++result) {
        int64_t frequency = k + first * (result / parts);
        double angle = 2 * M_PI * double(point / 2 * frequency % t.length) /
                       double(t.length);
        values.push_back(
            ofFloat(scale * rotation(angle, t.inverse, point % 2 == 1,
                                     result % parts == 1)));
      }
  return l.constant(HostTensor::dense({first, second * 2, second * parts}, type,
                                      std::move(values)));
}

/// Point p = second·i + j, frequency k + first·m: the sums over i, each turned
/// and summed over j. [rows, points, parts] to [rows, points, parts].
static Value byFactors(Lowering &l, const Transform &t, Value value,
                       int64_t first, int64_t second) {
  if (t.makesReal())
    value = wholeSpectrum(l, t, value);
  int64_t rows = shapeOf(value)[0], from = shapeOf(value)[2],
          to = t.resultParts();
  Transform inner{first, t.inverse, /*oneSided=*/false, first, from};
  Value columns = l.reshape(
      l.transpose(l.reshape(value, {rows, first, second, from}), {0, 2, 1, 3}),
      {rows * second, first * from});
  Value sums = multiply(l, columns, matrixOf(l, inner, elementType(value)));
  Value turns = l.reshape(
      l.transpose(l.reshape(sums, {rows, second, first, 2}), {2, 0, 1, 3}),
      {first, rows, second * 2});
  Value product = multiply(
      l, turns, turnedMatrices(l, t, first, second, elementType(value)));
  Value result = l.reshape(
      l.transpose(l.reshape(product, {first, rows, second, to}), {1, 2, 0, 3}),
      {rows, t.length, to});
  return l.slice(result, 1, 0, t.resultPoints());
}

/// `value` of rank 2 or more transformed along `axis`, which is not the last.
static Value transform(Lowering &l, const Transform &t, Value value,
                       int64_t axis) {
  int64_t rank = rankOf(value);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[axis], order[rank - 2]); // its own inverse
  Value turned = l.transpose(value, order);
  SmallVector<int64_t> shape(shapeOf(turned));
  int64_t rows = 1;
  for (int64_t size : ArrayRef<int64_t>(shape).drop_back(2))
    rows *= size;
  auto [first, second] = t.factors();
  Value product;
  if (second > 1) {
    product = byFactors(l, t, l.reshape(turned, {rows, t.points, t.parts}),
                        first, second);
  } else {
    Value flat = l.reshape(turned, {rows, t.points * t.parts});
    product = multiply(l, flat, matrixOf(l, t, elementType(flat)));
  }
  shape[rank - 2] = t.resultPoints();
  shape[rank - 1] = t.resultParts();
  return l.transpose(l.reshape(product, shape), order);
}

/// Whether the transform can be written out; records why not.
static LogicalResult check(Lowering &l, onnx::NodeOp node, const Transform &t) {
  if (t.length < 1 || t.points < 1)
    return l.unsupported(node, "it has no points");
  if (t.parts != 1 && t.parts != 2)
    return l.unsupported(node, "the last axis of its operand is neither 1 "
                               "(real) nor 2 (complex)");
  // What the standard's own test of it expects is, for zeros, the rounding of
  // one fast transform in f32.
  if (t.inverse && !t.oneSided)
    return l.unsupported(node, "an inverse of both sides; that of one side "
                               "(torch.fft.irfft) is");
  if (t.oneSided && !t.inverse && t.parts != 1)
    return l.unsupported(node, "one side is only of real signals");
  bool fits = t.length <= mostElements && t.points <= mostElements &&
              (t.factors().second > 1 ||
               t.points * t.parts <=
                   mostElements / (t.resultPoints() * t.resultParts()));
  if (!fits)
    return l.unsupported(node, "its " + Twine(t.length) +
                                   " points would be a matrix of more than " +
                                   Twine(mostElements) + " elements");
  return success();
}

/// The one number of a known input; `value` as it is where there is none.
static bool getNumber(Lowering &l, Value input, int64_t &value) {
  SmallVector<int64_t> numbers = {value};
  if (!l.getOptionalInts(input, numbers) || numbers.size() != 1)
    return false;
  value = numbers[0];
  return true;
}

/// A float operand as what is computed in.
static Value operandOf(Lowering &l, Value input) {
  Value value = l.get(input);
  return l.interpreting ? value : l.f32(value);
}

/// Since opset 20 the axis is an input, and another one where it is left out.
static int64_t defaultAxis(onnx::NodeOp node) {
  auto opset = node->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(
      "onnx.opset");
  return opset && opset.getInt() >= 20 ? -2 : node.getInt("axis", 1);
}

static LogicalResult lowerDFT(Lowering &l, onnx::NodeOp node) {
  Value value = operandOf(l, node.getInput(0));
  if (!isFloat(value) || rankOf(value) < 2)
    return l.unsupported(node, "only of floats, with an axis for the parts of "
                               "complex numbers");
  int64_t axis = defaultAxis(node);
  if (!getNumber(l, node.getInput(2), axis))
    return l.unsupported(node, "its axis must be a known number");
  int64_t along = axis < 0 ? axis + rankOf(value) : axis;
  if (along < 0 || along > rankOf(value) - 2)
    return l.wrong(node, "it has no axis " + Twine(axis));
  Transform t;
  t.inverse = node.getInt("inverse", 0) != 0;
  t.oneSided = node.getInt("onesided", 0) != 0;
  t.points = shapeOf(value)[along];
  t.parts = shapeOf(value).back();
  t.length = t.makesReal() ? 2 * (t.points - 1) : t.points;
  if (!getNumber(l, node.getInput(1), t.length))
    return l.unsupported(node, "its length must be a known number");
  if (failed(check(l, node, t)))
    return failure();
  Value result = transform(l, t, value, along);
  l.set(node->getResult(0),
        l.cast(result, elementType(l.get(node.getInput(0)))));
  return success();
}

/// Frames of the signal, each times the window, then transformed.
static LogicalResult lowerSTFT(Lowering &l, onnx::NodeOp node) {
  Value signal = operandOf(l, node.getInput(0));
  if (!isFloat(signal) || (rankOf(signal) != 2 && rankOf(signal) != 3))
    return l.unsupported(node, "only of floats of shape [batch, length, 1 or "
                               "2]");
  SmallVector<int64_t> shape(shapeOf(signal));
  if (shape.size() == 2)
    shape.push_back(1);
  signal = l.reshape(signal, shape);
  Value window = node.getInput(2) ? operandOf(l, node.getInput(2)) : Value();
  if (window && rankOf(window) != 1)
    return l.wrong(node, "its window is no vector");
  Transform t;
  t.inverse = false;
  t.oneSided = node.getInt("onesided", 1) != 0;
  t.points = window ? shapeOf(window)[0] : shape[1];
  t.parts = shape[2];
  int64_t step = 0;
  if (!getNumber(l, node.getInput(1), step) ||
      !getNumber(l, node.getInput(3), t.points))
    return l.unsupported(node, "its step and length must be known numbers");
  t.length = t.points;
  if (failed(check(l, node, t)))
    return failure();
  if (step < 1 || t.points > shape[1])
    return l.wrong(node, "its frames do not lie in the signal");
  int64_t frames = (shape[1] - t.points) / step + 1;
  if (frames > mostIndices / t.points)
    return l.unsupported(node, "its frames have more than " +
                                   Twine(mostIndices) + " points");
  SmallVector<int64_t> indices;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t point = 0; point < t.points; ++point)
      indices.push_back(frame * step + point);
  Value cut = l.reshape(takeAxis(l, signal, 1, indices),
                        {shape[0], frames, t.points, t.parts});
  if (window)
    cut = l.mul(cut, l.reshape(window, {1, 1, t.points, 1}));
  l.set(node->getResult(0),
        l.cast(transform(l, t, cut, 2), elementType(l.get(node.getInput(0)))));
  return success();
}

void addFourierHandlers(HandlerTable &table) {
  table["DFT"] = lowerDFT;
  table["STFT"] = lowerSTFT;
}

} // namespace shardonnx
