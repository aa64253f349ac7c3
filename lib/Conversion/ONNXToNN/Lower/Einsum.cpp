// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Einsum: operands are contracted from the left, each pair as one
// batched matrix product between transposes; what one operand alone has is
// summed first.

#include "Handlers.h"

#include <string>

using namespace mlir;

namespace shardonnx {
namespace {

using nn::NNBuilder;

/// A tensor with a letter for each axis. The axes that an ellipsis stands for
/// have the characters from 1 on, counted from the last.
struct Labelled {
  Value value;
  std::string axes;

  int64_t sizeOf(char axis) const { return shapeOf(value)[axes.find(axis)]; }
  bool has(char axis) const { return axes.find(axis) != std::string::npos; }
};

bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The labels of one term, its ellipsis standing for `hidden` axes; none where
/// the term is malformed.
std::optional<std::string> readTerm(StringRef term, int64_t hidden) {
  std::string axes;
  bool dots = false;
  while (!term.empty()) {
    if (term.consume_front("...")) {
      if (dots || hidden < 0)
        return std::nullopt;
      dots = true;
      for (int64_t i = hidden; i > 0; --i)
        axes.push_back(static_cast<char>(i));
      continue;
    }
    if (!isLetter(term.front()))
      return std::nullopt;
    axes.push_back(term.front());
    term = term.drop_front();
  }
  return axes;
}

class Einsum {
public:
  explicit Einsum(Lowering &l) : b(l.builder, l.loc) {}

  /// Reads the equation; false where it does not fit the operands.
  bool read(StringRef equation, ArrayRef<Value> operands);
  Value build();

private:
  bool readOutput(StringRef letters, bool given, int64_t hidden);
  bool takeDiagonals(Labelled &term);
  bool checkSizes();
  Labelled sumAway(Labelled term, StringRef needed);
  Labelled multiply(Labelled lhs, Labelled rhs, StringRef needed);
  Value arrange(const Labelled &term, StringRef order);
  int64_t count(const Labelled &term, StringRef axes);

  NNBuilder b;
  SmallVector<Labelled> terms;
  std::string output;
};

} // namespace

bool Einsum::read(StringRef equation, ArrayRef<Value> operands) {
  std::string packed;
  for (char c : equation)
    if (c != ' ')
      packed.push_back(c);
  auto [left, right] = StringRef(packed).split("->");
  bool given = StringRef(packed).contains("->");
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  if (parts.size() != operands.size())
    return false;
  int64_t most = 0;
  for (auto [part, operand] : llvm::zip(parts, operands)) {
    auto letters = static_cast<int64_t>(llvm::count_if(part, isLetter));
    auto hidden = rankOf(operand) - letters;
    bool dots = part.contains("...");
    auto axes = readTerm(part, hidden);
    if (!axes || (!dots && hidden != 0))
      return false;
    most = std::max(most, dots ? hidden : 0);
    terms.push_back({operand, *axes});
  }
  for (Labelled &term : terms)
    if (!takeDiagonals(term))
      return false;
  return readOutput(given ? right : left, given, most) && checkSizes();
}

/// `letters` are those of the output, or where none is given of the operands:
/// then it has every letter that stands once, in order, behind the ellipsis.
bool Einsum::readOutput(StringRef letters, bool given, int64_t hidden) {
  if (given) {
    auto axes = readTerm(letters, hidden);
    if (!axes)
      return false;
    output = *axes;
  } else {
    for (int64_t i = hidden; i > 0; --i)
      output.push_back(static_cast<char>(i));
    for (char c = 'A'; c <= 'z'; ++c)
      if (isLetter(c) && llvm::count(letters, c) == 1)
        output.push_back(c);
  }
  auto isKnown = [&](char axis) {
    return llvm::any_of(terms, [&](const Labelled &t) { return t.has(axis); });
  };
  for (auto [i, axis] : llvm::enumerate(output))
    if (output.find(axis) != i || !isKnown(axis))
      return false;
  return true;
}

/// A letter twice in a term stands for the diagonal: of [n, n] padded to
/// [n, n + 1] in row-major order, the first column.
bool Einsum::takeDiagonals(Labelled &term) {
  for (size_t i = 0; i < term.axes.size(); ++i) {
    size_t j = term.axes.find(term.axes[i], i + 1);
    if (j == std::string::npos)
      continue;
    int64_t size = shapeOf(term.value)[i];
    if (shapeOf(term.value)[j] != size)
      return false;
    char axis = term.axes[i];
    std::string order = term.axes;
    order.erase(j, 1);
    order.erase(i, 1);
    SmallVector<int64_t> permutation, shape;
    for (size_t k = 0; k < term.axes.size(); ++k)
      if (k != i && k != j) {
        permutation.push_back(static_cast<int64_t>(k));
        shape.push_back(shapeOf(term.value)[k]);
      }
    permutation.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
    Value value = b.transpose(term.value, permutation);
    auto last = static_cast<int64_t>(shape.size());
    shape.push_back(size * size);
    value = b.reshape(value, shape);
    SmallVector<int64_t> low(shape.size(), 0), high(shape.size(), 0);
    high[last] = size;
    value = nn::PadOp::create(b.builder, b.loc, value, low, high);
    shape[last] = size;
    shape.push_back(size + 1);
    value = b.slice(b.reshape(value, shape), last + 1, 0, 1);
    shape.pop_back();
    term = {b.reshape(value, shape), order + axis};
    --i;
  }
  return true;
}

/// Equal letters have equal sizes, or one that broadcasts.
bool Einsum::checkSizes() {
  llvm::SmallDenseMap<char, int64_t> sizes;
  for (const Labelled &term : terms)
    for (char axis : term.axes) {
      int64_t size = term.sizeOf(axis);
      int64_t &known = sizes.try_emplace(axis, size).first->second;
      if (known == 1)
        known = size;
      if (size != 1 && size != known)
        return false;
    }
  return true;
}

/// Sums over the axes that nothing behind needs.
Labelled Einsum::sumAway(Labelled term, StringRef needed) {
  SmallVector<int64_t> axes;
  std::string kept;
  for (auto [i, axis] : llvm::enumerate(term.axes))
    if (needed.contains(axis))
      kept.push_back(axis);
    else
      axes.push_back(static_cast<int64_t>(i));
  if (axes.empty())
    return term;
  return {b.sum(term.value, axes, /*keepdims=*/false), kept};
}

/// The term transposed to `order`, without the axes that it lacks.
Value Einsum::arrange(const Labelled &term, StringRef order) {
  SmallVector<int64_t> permutation;
  for (char axis : order)
    if (term.has(axis))
      permutation.push_back(static_cast<int64_t>(term.axes.find(axis)));
  assert(permutation.size() == term.axes.size() && "an axis is left over");
  if (llvm::is_sorted(permutation))
    return term.value;
  return b.transpose(term.value, permutation);
}

int64_t Einsum::count(const Labelled &term, StringRef axes) {
  int64_t product = 1;
  for (char axis : axes)
    product *= term.sizeOf(axis);
  return product;
}

Labelled Einsum::multiply(Labelled lhs, Labelled rhs, StringRef needed) {
  // What one of the two does not share with anything behind is summed first;
  // an axis of size 1 that broadcasts leaves with it.
  auto prepare = [&](Labelled &own, Labelled &other) {
    for (size_t i = 0; i < own.axes.size();) {
      char axis = own.axes[i];
      if (!other.has(axis) || own.sizeOf(axis) != 1 ||
          other.sizeOf(axis) == 1) {
        ++i;
        continue;
      }
      SmallVector<int64_t> shape(shapeOf(own.value));
      shape.erase(shape.begin() + i);
      own.value = b.reshape(own.value, shape);
      own.axes.erase(i, 1);
    }
  };
  prepare(lhs, rhs);
  prepare(rhs, lhs);
  lhs = sumAway(lhs, needed.str() + rhs.axes);
  rhs = sumAway(rhs, needed.str() + lhs.axes);
  std::string batch, rows, inner, columns;
  for (char axis : lhs.axes)
    (!rhs.has(axis)          ? rows
     : needed.contains(axis) ? batch
                             : inner)
        .push_back(axis);
  for (char axis : rhs.axes)
    if (!lhs.has(axis))
      columns.push_back(axis);
  std::string axes = batch + rows + columns;
  SmallVector<int64_t> shape;
  for (char axis : axes)
    shape.push_back((lhs.has(axis) ? lhs : rhs).sizeOf(axis));
  int64_t b1 = count(lhs, batch), m = count(lhs, rows), k = count(lhs, inner),
          n = count(rhs, columns);
  Value x = arrange(lhs, batch + rows + inner);
  Value y = arrange(rhs, batch + inner + columns);
  Value product;
  if (inner.empty()) {
    // Nothing is summed: an elementwise product.
    product = b.mul(b.reshape(x, {b1, m, 1}), b.reshape(y, {b1, 1, n}));
  } else {
    auto type = RankedTensorType::get({b1, m, n}, elementType(x));
    product =
        nn::MatmulOp::create(b.builder, b.loc, type, b.reshape(x, {b1, m, k}),
                             b.reshape(y, {b1, k, n}), UnitAttr(), UnitAttr());
  }
  return {b.reshape(product, shape), axes};
}

Value Einsum::build() {
  Labelled result = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = output;
    for (size_t j = i + 1; j < terms.size(); ++j)
      needed += terms[j].axes;
    result = multiply(result, terms[i], needed);
  }
  return arrange(sumAway(result, output), output);
}

static LogicalResult lowerEinsum(Lowering &l, onnx::NodeOp node) {
  SmallVector<Value> operands;
  for (Value input : node.getInputs()) {
    operands.push_back(l.get(input));
    if (!isFloat(operands.back()))
      return l.unsupported(node, "only of floats");
  }
  Einsum einsum(l);
  if (!einsum.read(node.getString("equation", ""), operands))
    return l.unsupported(node, "its equation does not fit its operands");
  l.set(node->getResult(0), einsum.build());
  return success();
}

void addEinsumHandlers(HandlerTable &table) { table["Einsum"] = lowerEinsum; }

} // namespace shardonnx
