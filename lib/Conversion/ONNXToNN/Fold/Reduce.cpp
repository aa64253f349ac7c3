// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that reduce along axes. Floats are summed in double
// and rounded once.

#include "Evaluate.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

/// What a reduction keeps: the shapes of its result, and for each element of
/// the operand in row-major order the element of the result that it goes to.
struct Reduced {
  HostTensor::Dims kept, squeezed;
  int64_t results = 0, parts = 0;
  std::vector<int64_t> targets;
};

std::optional<Reduced> reduceAlong(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> axes) {
  Reduced r;
  r.kept.assign(shape.begin(), shape.end());
  r.parts = 1;
  for (int64_t axis : axes) {
    r.parts *= shape[axis];
    r.kept[axis] = 1;
  }
  for (auto [i, dim] : llvm::enumerate(shape))
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      r.squeezed.push_back(dim);
  auto count = countOf(shape), results = countOf(r.kept);
  if (!count || !results)
    return std::nullopt;
  r.results = *results;
  SmallVector<int64_t> steps(shape.size(), 0), index(shape.size(), 0);
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= r.kept[i])
    steps[i] = r.kept[i] == 1 ? 0 : step;
  r.targets.reserve(*count);
  for (int64_t n = 0; n < *count; ++n, advance(index, shape)) {
    int64_t to = 0;
    for (size_t i = 0; i < index.size(); ++i)
      to += index[i] * steps[i];
    r.targets.push_back(to);
  }
  return r;
}

enum class Reduction { Sum, Max, Min, Prod, Mean };

/// What a reduction of nothing gives.
Scalar neutral(Reduction kind, Type type) {
  bool isFloat = isa<FloatType>(type);
  if (kind == Reduction::Prod)
    return scalarOf(1, type);
  if (kind != Reduction::Max && kind != Reduction::Min)
    return scalarOf(0, type);
  bool least = kind == Reduction::Max;
  if (isFloat)
    return ofFloat(least ? -std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::infinity());
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 1 || type.isUnsignedInteger())
    return ofInt(least ? 0 : wrapTo(-1, type));
  int64_t lowest = -(int64_t(1) << (width - 2)) * 2;
  return ofInt(least ? lowest : ~lowest);
}

Scalar accumulate(Reduction kind, Scalar sum, Scalar item, Type type) {
  bool isFloat = isa<FloatType>(type);
  switch (kind) {
  case Reduction::Max:
    return maxScalar(sum, item, type);
  case Reduction::Min:
    return minScalar(sum, item, type);
  case Reduction::Prod:
    return isFloat ? ofFloat(sum.f * item.f) : multiplyScalars(sum, item, type);
  default:
    return isFloat ? ofFloat(sum.f + item.f) : addScalars(sum, item, type);
  }
}

template <Reduction Kind>
HostOutputs reduce(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  const HostTensor &data = *inputs[0];
  auto axes = readReducedAxes(node, inputAt(inputs, 1), data.getRank());
  if (!axes)
    return std::nullopt;
  auto reduced = reduceAlong(data.getShape(), *axes);
  if (!reduced)
    return std::nullopt;
  Type type = data.getElementType();
  if (Kind == Reduction::Mean && !isa<FloatType>(type) && reduced->parts == 0)
    return std::nullopt;
  std::vector<Scalar> result(reduced->results, neutral(Kind, type));
  std::vector<Scalar> items = data.flatten();
  for (size_t n = 0; n < items.size(); ++n) {
    Scalar &sum = result[reduced->targets[n]];
    sum = accumulate(Kind, sum, items[n], type);
  }
  for (Scalar &sum : result) {
    if (isa<FloatType>(type))
      sum.f = roundTo(Kind == Reduction::Mean
                          ? sum.f / static_cast<double>(reduced->parts)
                          : sum.f,
                      type);
    else if (Kind == Reduction::Mean)
      sum.i /= reduced->parts;
  }
  return one(HostTensor::dense(node.getInt("keepdims", 1) ? reduced->kept
                                                          : reduced->squeezed,
                               type, std::move(result)));
}

/// Whether `item` takes the place of `best`: what is not a number comes before
/// all numbers.
template <bool Greatest>
bool isBetter(Scalar item, Scalar best, Type type, bool lastOfEqual) {
  if (isa<FloatType>(type) && (std::isnan(item.f) || std::isnan(best.f)))
    return std::isnan(item.f) && (lastOfEqual || !std::isnan(best.f));
  int order = compareScalars(item, best, type);
  return order == (Greatest ? 1 : -1) || (lastOfEqual && order == 0);
}

/// For each line along `axis` the index of its greatest or least element.
template <bool Greatest>
std::vector<int64_t> extremeOf(const HostTensor &data, const AxisView &view,
                               bool lastOfEqual) {
  std::vector<Scalar> items = data.flatten();
  std::vector<int64_t> result;
  result.reserve(view.outer * view.inner);
  Type type = data.getElementType();
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t n = 1; n < view.length; ++n)
        if (isBetter<Greatest>(items[view.at(o, n, i)],
                               items[view.at(o, best, i)], type, lastOfEqual))
          best = n;
      result.push_back(best);
    }
  return result;
}

template <bool Greatest>
HostOutputs argExtreme(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  const HostTensor &data = *inputs[0];
  auto axis = normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (!axis || data.getShape()[*axis] == 0 || !countOf(data.getShape()))
    return std::nullopt;
  HostTensor::Dims shape(data.getShape());
  std::vector<int64_t> found =
      extremeOf<Greatest>(data, AxisView(data.getShape(), *axis),
                          node.getInt("select_last_index", 0) != 0);
  if (node.getInt("keepdims", 1))
    shape[*axis] = 1;
  else
    shape.erase(shape.begin() + *axis);
  return one(
      HostTensor::ints(shape, found, IntegerType::get(node.getContext(), 64)));
}

/// 1 at the first greatest element of each line, 0 elsewhere.
HostOutputs hardmax(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  const HostTensor &data = *inputs[0];
  auto axis = normalizeAxis(node.getInt("axis", -1), data.getRank());
  auto count = countOf(data.getShape());
  if (!axis || !count)
    return std::nullopt;
  AxisView view(data.getShape(), *axis);
  std::vector<Scalar> result(*count, ofFloat(0));
  if (*count > 0) {
    std::vector<int64_t> found = extremeOf<true>(data, view, false);
    for (size_t line = 0; line < found.size(); ++line) {
      auto at = static_cast<int64_t>(line);
      result[view.at(at / view.inner, found[line], at % view.inner)].f = 1;
    }
  }
  return one(HostTensor::dense(data.getShape(), data.getElementType(),
                               std::move(result)));
}

} // namespace

void addReduceEvaluators(llvm::StringMap<Evaluator> &table) {
  table["ReduceSum"] = reduce<Reduction::Sum>;
  table["ReduceMax"] = reduce<Reduction::Max>;
  table["ReduceMin"] = reduce<Reduction::Min>;
  table["ReduceProd"] = reduce<Reduction::Prod>;
  table["ReduceMean"] = reduce<Reduction::Mean>;
  table["ArgMax"] = argExtreme<true>;
  table["ArgMin"] = argExtreme<false>;
  table["Hardmax"] = hardmax;
}

} // namespace shardonnx
