// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of matrix products. Floats are summed in double and rounded once.

#include "Evaluate.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// Products that one evaluation may take.
constexpr int64_t maxProducts = int64_t(1) << 30;

/// Adds a product to a sum that is rounded only at the end.
void addProduct(Scalar &sum, Scalar a, Scalar b, Type type) {
  if (isa<FloatType>(type))
    sum.f += a.f * b.f;
  else
    sum = addScalars(sum, multiplyScalars(a, b, type), type);
}

Scalar rounded(Scalar sum, Type type) {
  return isa<FloatType>(type) ? ofFloat(roundTo(sum.f, type)) : sum;
}

Scalar zeroOf(Type type) { return scalarOf(0, type); }

/// Multiplies the last two axes of two tensors whose other axes are equal.
std::optional<HostTensor> multiply(const HostTensor &a, const HostTensor &b) {
  HostTensor::Dims shape(a.getShape());
  int64_t rows = shape[shape.size() - 2], inner = shape.back();
  int64_t columns = b.getShape().back();
  shape.back() = columns;
  auto count = countOf(shape);
  if (!count || !countOf(a.getShape()) || !countOf(b.getShape()) ||
      (inner > 0 && *count > maxProducts / inner))
    return std::nullopt;
  std::vector<Scalar> left = a.flatten(), right = b.flatten();
  Type type = a.getElementType();
  std::vector<Scalar> result(*count, zeroOf(type));
  for (int64_t n = 0; n < *count; ++n) {
    int64_t column = n % columns, row = n / columns;
    int64_t matrix = row / rows;
    for (int64_t k = 0; k < inner; ++k)
      addProduct(result[n], left[row * inner + k],
                 right[(matrix * inner + k) * columns + column], type);
    result[n] = rounded(result[n], type);
  }
  return HostTensor::dense(shape, type, std::move(result));
}

HostOutputs matmul(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[0]->getRank() == 0 ||
      inputs[1]->getRank() == 0 ||
      inputs[0]->getElementType() != inputs[1]->getElementType())
    return std::nullopt;
  HostTensor::Dims left(inputs[0]->getShape()), right(inputs[1]->getShape());
  bool leftVector = left.size() == 1, rightVector = right.size() == 1;
  if (leftVector)
    left.insert(left.begin(), 1);
  if (rightVector)
    right.push_back(1);
  if (left.back() != right[right.size() - 2])
    return std::nullopt;
  auto batch = broadcastShapes(ArrayRef<int64_t>(left).drop_back(2),
                               ArrayRef<int64_t>(right).drop_back(2));
  if (!batch)
    return std::nullopt;
  auto spread = [&](const HostTensor &tensor, ArrayRef<int64_t> shape) {
    HostTensor::Dims full(*batch);
    full.append(shape.end() - 2, shape.end());
    return tensor.reshape(shape).broadcast(full);
  };
  auto product = multiply(spread(*inputs[0], left), spread(*inputs[1], right));
  if (!product)
    return std::nullopt;
  HostTensor::Dims shape(*batch);
  if (!leftVector)
    shape.push_back(left[left.size() - 2]);
  if (!rightVector)
    shape.push_back(right.back());
  return one(product->reshape(shape));
}

/// `value` scaled by `factor`, as an element of `type`.
Scalar scaled(Scalar value, double factor, Type type) {
  return factor == 1 ? value : scalarOf(toDouble(value, type) * factor, type);
}

HostOutputs gemm(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[0]->getRank() != 2 ||
      inputs[1]->getRank() != 2)
    return std::nullopt;
  HostTensor a = *inputs[0], b = *inputs[1];
  if (node.getInt("transA", 0))
    a = a.transpose({1, 0});
  if (node.getInt("transB", 0))
    b = b.transpose({1, 0});
  Type type = a.getElementType();
  if (a.getShape()[1] != b.getShape()[0] || b.getElementType() != type)
    return std::nullopt;
  double alpha = node.getFloat("alpha", 1), beta = node.getFloat("beta", 1);
  auto product = multiply(a, b);
  if (!product)
    return std::nullopt;
  const HostTensor *bias = inputAt(inputs, 2);
  if (!bias)
    return one(HostTensor::map({*product}, type, [&](ArrayRef<Scalar> x) {
      return scaled(x[0], alpha, type);
    }));
  auto shape = broadcastShapes(product->getShape(), bias->getShape());
  if (!shape || ArrayRef<int64_t>(*shape) != product->getShape())
    return std::nullopt;
  return one(HostTensor::map({*product, *bias}, type, [&](ArrayRef<Scalar> x) {
    return addScalars(scaled(x[0], alpha, type), scaled(x[1], beta, type),
                      type);
  }));
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

/// One term of an equation: an index of the loop nest for each axis.
using Term = SmallVector<unsigned, 6>;

/// The loops of an equation: those of the result come first.
struct Nest {
  SmallVector<int64_t> sizes;
  llvm::StringMap<unsigned> loops;

  /// The loop of a label; false when its size is another than before.
  bool bind(StringRef label, int64_t size, unsigned &loop) {
    auto [known, isNew] = loops.try_emplace(label, sizes.size());
    if (isNew)
      sizes.push_back(size);
    loop = known->second;
    if (sizes[loop] == 1)
      sizes[loop] = size;
    return size == sizes[loop] || size == 1;
  }
};

/// The labels of a term, one for each axis; an ellipsis stands for as many as
/// are left, numbered from the last.
std::optional<SmallVector<std::string>> labelsOf(StringRef term, int64_t rank) {
  auto [before, after] = term.split("...");
  bool dots = term.contains("...");
  int64_t rest = rank - static_cast<int64_t>(before.size() + after.size());
  if (rest < 0 || (rest > 0 && !dots) || after.contains('.'))
    return std::nullopt;
  SmallVector<std::string> labels;
  for (char label : before)
    labels.emplace_back(1, label);
  for (int64_t i = rest; dots && i > 0; --i)
    labels.push_back("." + std::to_string(i));
  for (char label : after)
    labels.emplace_back(1, label);
  return labels;
}

/// Without an arrow the result has the labels that occur once, in order, after
/// those of an ellipsis.
std::string impliedResult(StringRef terms) {
  std::string once, all = terms.str();
  for (char label = 'A'; label <= 'z'; ++label)
    if (llvm::isAlpha(label) && llvm::count(all, label) == 1)
      once += label;
  return (terms.contains("...") ? "..." : "") + once;
}

struct Equation {
  Nest nest;
  SmallVector<Term> terms;
  SmallVector<unsigned> result;
};

std::optional<Equation> parseEquation(StringRef text, HostInputs inputs) {
  std::string equation;
  llvm::copy_if(text, std::back_inserter(equation),
                [](char c) { return c != ' '; });
  auto [left, right] = StringRef(equation).split("->");
  std::string result =
      StringRef(equation).contains("->") ? right.str() : impliedResult(left);
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  if (parts.size() != inputs.size())
    return std::nullopt;
  Equation e;
  int64_t dots = 0;
  for (auto [part, input] : llvm::zip(parts, inputs)) {
    auto labels = labelsOf(part, input->getRank());
    if (!labels)
      return std::nullopt;
    Term &term = e.terms.emplace_back();
    for (auto [label, size] : llvm::zip(*labels, input->getShape())) {
      dots += label[0] == '.' && !e.nest.loops.contains(label);
      if (!e.nest.bind(label, size, term.emplace_back()))
        return std::nullopt;
    }
  }
  int64_t named = static_cast<int64_t>(result.size()) -
                  (StringRef(result).contains("...") ? 3 : 0);
  auto labels =
      labelsOf(result, named + (StringRef(result).contains("...") ? dots : 0));
  if (!labels)
    return std::nullopt;
  for (const std::string &label : *labels) {
    auto loop = e.nest.loops.find(label);
    if (loop == e.nest.loops.end() ||
        llvm::is_contained(e.result, loop->second))
      return std::nullopt;
    e.result.push_back(loop->second);
  }
  return e;
}

/// The element of `input` at the present iteration of the loops.
Scalar elementAt(const HostTensor &input, const Term &term,
                 ArrayRef<int64_t> index) {
  HostTensor::Dims at;
  for (auto [loop, size] : llvm::zip(term, input.getShape()))
    at.push_back(size == 1 ? 0 : index[loop]);
  return input.at(at);
}

HostOutputs einsum(onnx::NodeOp node, HostInputs inputs) {
  if (inputs.empty() || !hasInputs(inputs, inputs.size()))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  for (const HostTensor *input : inputs)
    if (input->getElementType() != type)
      return std::nullopt;
  auto equation = parseEquation(node.getString("equation", ""), inputs);
  if (!equation)
    return std::nullopt;
  ArrayRef<int64_t> sizes = equation->nest.sizes;
  HostTensor::Dims shape;
  for (unsigned loop : equation->result)
    shape.push_back(sizes[loop]);
  auto steps = countOf(sizes), count = countOf(shape);
  if (!steps || !count)
    return std::nullopt;
  std::vector<Scalar> result(*count, zeroOf(type));
  SmallVector<int64_t> index(sizes.size(), 0);
  for (int64_t n = 0; n < *steps; ++n, advance(index, sizes)) {
    Scalar product = elementAt(*inputs[0], equation->terms[0], index);
    for (size_t i = 1; i + 1 < inputs.size(); ++i)
      product = multiplyScalars(
          product, elementAt(*inputs[i], equation->terms[i], index), type);
    Scalar last = inputs.size() > 1
                      ? elementAt(*inputs.back(), equation->terms.back(), index)
                      : scalarOf(1, type);
    int64_t to = 0;
    for (auto [loop, size] : llvm::zip(equation->result, shape))
      to = to * size + index[loop];
    addProduct(result[to], product, last, type);
  }
  for (Scalar &sum : result)
    sum = rounded(sum, type);
  return one(HostTensor::dense(shape, type, std::move(result)));
}

/// By elimination with pivots, in double.
double determinant(MutableArrayRef<double> a, int64_t n) {
  double result = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column]))
        pivot = row;
    if (a[pivot * n + column] == 0)
      return 0;
    for (int64_t k = 0; k < n && pivot != column; ++k)
      std::swap(a[pivot * n + k], a[column * n + k]);
    result *= (pivot != column ? -1 : 1) * a[column * n + column];
    for (int64_t row = column + 1; row < n; ++row) {
      double factor = a[row * n + column] / a[column * n + column];
      for (int64_t k = column; k < n; ++k)
        a[row * n + k] -= factor * a[column * n + k];
    }
  }
  return result;
}

HostOutputs det(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !inputs[0]->isFloat() ||
      inputs[0]->getRank() < 2)
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  int64_t n = shape.back();
  if (shape[shape.size() - 2] != n || n == 0 || n > 512 || !countOf(shape))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  std::vector<Scalar> items = inputs[0]->flatten();
  std::vector<Scalar> result;
  for (size_t at = 0; at < items.size(); at += n * n) {
    std::vector<double> matrix;
    for (int64_t i = 0; i < n * n; ++i)
      matrix.push_back(items[at + i].f);
    result.push_back(ofFloat(roundTo(determinant(matrix, n), type)));
  }
  return one(HostTensor::dense(shape.drop_back(2), type, std::move(result)));
}

} // namespace

void addMatmulEvaluators(llvm::StringMap<Evaluator> &table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsum;
  table["Det"] = det;
}

} // namespace shardonnx
