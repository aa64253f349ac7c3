// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See RowsOfMask.h.

#include "RowsOfMask.h"

#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

#include <numeric>

using namespace llvm;

namespace shardonnx {
namespace {

using Shape = std::vector<int64_t>;

bool isElementwise(StringRef op) {
  static const StringSet<> ops = {"Abs",
                                  "Acos",
                                  "Acosh",
                                  "Add",
                                  "And",
                                  "Asin",
                                  "Asinh",
                                  "Atan",
                                  "Atanh",
                                  "BitShift",
                                  "BitwiseAnd",
                                  "BitwiseNot",
                                  "BitwiseOr",
                                  "BitwiseXor",
                                  "Cast",
                                  "CastLike",
                                  "Ceil",
                                  "Celu",
                                  "Clip",
                                  "Cos",
                                  "Cosh",
                                  "Div",
                                  "Dropout",
                                  "Elu",
                                  "Equal",
                                  "Erf",
                                  "Exp",
                                  "Floor",
                                  "Gelu",
                                  "Greater",
                                  "GreaterOrEqual",
                                  "HardSigmoid",
                                  "HardSwish",
                                  "Identity",
                                  "IsInf",
                                  "IsNaN",
                                  "LeakyRelu",
                                  "Less",
                                  "LessOrEqual",
                                  "Log",
                                  "Max",
                                  "Mean",
                                  "Min",
                                  "Mish",
                                  "Mod",
                                  "Mul",
                                  "Neg",
                                  "Not",
                                  "Or",
                                  "Pow",
                                  "PRelu",
                                  "Reciprocal",
                                  "Relu",
                                  "Round",
                                  "Selu",
                                  "Shrink",
                                  "Sigmoid",
                                  "Sign",
                                  "Sin",
                                  "Sinh",
                                  "Softplus",
                                  "Softsign",
                                  "Sqrt",
                                  "Sub",
                                  "Sum",
                                  "Swish",
                                  "Tan",
                                  "Tanh",
                                  "ThresholdedRelu",
                                  "Where",
                                  "Xor"};
  return ops.contains(op);
}

} // namespace

std::vector<std::string> findMasks(const ::onnx::GraphProto &graph) {
  StringSet<> data;
  for (const auto &input : graph.input())
    data.insert(input.name());
  for (const auto &tensor : graph.initializer())
    if (mayBeWeight(tensor))
      data.insert(tensor.name());
  std::vector<std::string> masks;
  StringSet<> seen;
  auto add = [&](const std::string &mask) {
    if (seen.insert(mask).second)
      masks.push_back(mask);
  };
  StringMap<std::string> columns, repeated; // by what they are made of
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (isOp(node, "Unsqueeze") || isOp(node, "Reshape"))
      columns[node.output(0)] = node.input(0);
    else if (isOp(node, "Expand"))
      repeated[node.output(0)] = columns.contains(node.input(0))
                                     ? columns[node.input(0)]
                                     : node.input(0);
    if (isOp(node, "Shape") || isOp(node, "Size") ||
        none_of(node.input(),
                [&](const std::string &input) { return data.contains(input); }))
      continue;
    if (isOp(node, "NonZero")) {
      add(node.input(0));
      // `y[mask] = …` may have a mask of elements, and count that of rows.
      if (auto found = repeated.find(node.input(0)); found != repeated.end())
        add(found->second);
    }
    for (const std::string &output : node.output())
      data.insert(output);
  }
  return masks;
}

int64_t RowTracer::countOf(StringRef mask) const {
  return elementsOf(*known.shapeOf(mask));
}

/// The axis must be there, and count the places of the mask.
bool RowTracer::set(StringRef output, Rows value) {
  const Shape *shape = known.shapeOf(output);
  if (!shape || value.axis < 0 || value.axis >= int64_t(shape->size()) ||
      (*shape)[value.axis] != countOf(value.mask))
    return false;
  // Of other shapes they are numbers as others.
  if (value.columns &&
      (shape->size() > 2 || (value.columns->size() != 1 &&
                             elementsOf(*shape) / countOf(value.mask) !=
                                 int64_t(value.columns->size()))))
    value.columns.reset();
  rows[output] = std::move(value);
  return true;
}

bool RowTracer::isRead(const ::onnx::NodeProto &node, int input) const {
  return input < node.input_size() && rowsOf(node.input(input));
}

/// Whether no other input has rows.
bool RowTracer::onlyReads(const ::onnx::NodeProto &node, int input) const {
  for (int i = 0; i < node.input_size(); ++i)
    if (isRead(node, i) != (i == input))
      return false;
  return true;
}

bool RowTracer::visitElementwise(const ::onnx::NodeProto &node) {
  const Shape *to = known.shapeOf(node.output(0));
  if (!to)
    return false;
  // Of CastLike's second input nothing but the type counts.
  int inputs = isOp(node, "CastLike") ? 1 : node.input_size();
  std::optional<Rows> result;
  for (int i = 0; i < inputs; ++i) {
    const Rows *read = rowsOf(node.input(i));
    if (!read)
      continue;
    const Shape *from = known.shapeOf(node.input(i));
    int64_t axis = read->axis + int64_t(to->size()) - int64_t(from->size());
    if (result && (result->mask != read->mask || result->axis != axis))
      return false;
    result = {read->mask, axis, std::nullopt};
    if (isOp(node, "Identity") || isOp(node, "Cast"))
      result->columns = read->columns;
  }
  if (!result)
    return true;
  for (int i = 0; i < inputs; ++i) {
    if (node.input(i).empty() || rowsOf(node.input(i)))
      continue;
    const Shape *from = known.shapeOf(node.input(i));
    if (!from)
      return false;
    int64_t axis = result->axis + int64_t(from->size()) - int64_t(to->size());
    if (axis >= 0 && (*from)[axis] != 1)
      return false;
  }
  return all_of(node.output(), [&](const std::string &output) {
    return output.empty() || set(output, *result);
  });
}

/// The mask that has the rows' mask for each of their elements: one of the
/// graph, of this shape behind the mask's, else one that is made.
std::string RowTracer::maskOfElements(const Rows &whole,
                                      ArrayRef<int64_t> rest) {
  Shape shape = *known.shapeOf(whole.mask), column = shape;
  append_range(shape, rest);
  column.resize(shape.size(), 1);
  for (const std::string &mask : masks) {
    const ::onnx::NodeProto *all = known.producerOf(mask);
    const ::onnx::NodeProto *one =
        all && isOp(*all, "Expand") ? known.producerOf(all->input(0)) : nullptr;
    if (one && (isOp(*one, "Unsqueeze") || isOp(*one, "Reshape")) &&
        same.firstLike(one->input(0)) == whole.mask &&
        *known.shapeOf(mask) == shape && known.shapeOf(one->output(0)) &&
        *known.shapeOf(one->output(0)) == column)
      return same.firstLike(mask);
  }
  int64_t each = elementsOf(rest);
  std::string name = whole.mask + "[" + std::to_string(each) + "]";
  known.setShape(name, {countOf(whole.mask), each});
  elements[name] = {whole.mask, each};
  return name;
}

/// Also Squeeze, Unsqueeze and Flatten.
bool RowTracer::visitReshape(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0)),
              *to = known.shapeOf(node.output(0));
  if (!to || !onlyReads(node, 0))
    return false;
  Rows result = *rowsOf(node.input(0));
  const RowCount *counted =
      isOp(node, "Reshape") ? countAt(node.input(1)) : nullptr;
  const Shape *asked =
      isOp(node, "Reshape") && !counted ? known.intsOf(node.input(1)) : nullptr;
  int64_t count = (*from)[result.axis], before = 1,
          wanted = elementsOf(ArrayRef(*from).take_front(result.axis));
  for (auto [axis, size] : enumerate(*to)) {
    if (before == wanted && size == count) {
      // As many as there are places, or in another place.
      if ((asked && axis < asked->size() && (*asked)[axis] > 0) ||
          (counted && counted->place >= 0 && counted->place != int64_t(axis)))
        return false;
      result.axis = int64_t(axis);
      return set(node.output(0), result);
    }
    before *= size;
  }
  // The number of rows is whatever is left, or computed.
  if (result.axis != 0 || to->empty() || (asked && asked->front() > 0))
    return false;
  // Elements of rows, as `y[mask] = rows` has them.
  if (to->front() > count && to->front() % count == 0) {
    ArrayRef<int64_t> rest = ArrayRef(*from).drop_front();
    int64_t each = to->front() / count;
    std::string mask =
        maskOfElements(result, to->size() == 1 ? rest : ArrayRef(each));
    return set(node.output(0), {mask, 0});
  }
  // Rows of their elements.
  const ElementsOfRows *whole = elementsOfRows(result.mask);
  return whole && set(node.output(0), {whole->mask, 0});
}

bool RowTracer::visitExpand(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0)),
              *to = known.shapeOf(node.output(0));
  if (!to || !onlyReads(node, 0))
    return false;
  Rows result = *rowsOf(node.input(0));
  result.axis += int64_t(to->size()) - int64_t(from->size());
  return set(node.output(0), result);
}

/// Along other axes; of indices with numbers that are known.
bool RowTracer::visitSlice(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0));
  if (!onlyReads(node, 0) || node.input_size() < 4)
    return false;
  const Shape *axes = known.intsOf(node.input(3)),
              *starts = known.intsOf(node.input(1)),
              *ends = known.intsOf(node.input(2));
  Rows result = *rowsOf(node.input(0));
  bool plain = node.input_size() < 5 || node.input(4).empty();
  if (!plain)
    if (const Shape *steps = known.intsOf(node.input(4)))
      plain = all_of(*steps, [](int64_t step) { return step == 1; });
  // As many as there are.
  const RowCount *count = countAt(node.input(2));
  if (axes && *axes == Shape{result.axis} && starts && *starts == Shape{0} &&
      count && count->mask == result.mask && isNumber(node.input(2)) && plain) {
    known.setShape(node.output(0), *from);
    return set(node.output(0), result);
  }
  // Of another axis it would be as many as there are places.
  if (!axes || count || countAt(node.input(1)) ||
      any_of(*axes, [&](int64_t axis) {
        return normalized(axis, from->size()) == result.axis;
      }))
    return false;
  if (result.columns && axes->size() == 1 && starts && starts->size() == 1 &&
      ends && ends->size() == 1 && plain) {
    auto size = int64_t(result.columns->size());
    auto place = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    int64_t first = place(starts->front()), last = place(ends->front());
    result.columns = Shape(result.columns->begin() + first,
                           result.columns->begin() + std::max(first, last));
  } else {
    result.columns.reset();
  }
  return set(node.output(0), result);
}

bool RowTracer::visitSplit(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0));
  Rows whole = *rowsOf(node.input(0));
  int64_t axis = normalized(intAttribute(node, "axis", 0), from->size());
  if (!onlyReads(node, 0) || axis == whole.axis)
    return false;
  size_t first = 0;
  for (const std::string &output : node.output()) {
    const Shape *to = known.shapeOf(output);
    if (!to)
      return false;
    Rows part = whole;
    auto size = size_t((*to)[axis]);
    if (whole.columns && first + size <= whole.columns->size())
      part.columns = Shape(whole.columns->begin() + first,
                           whole.columns->begin() + first + size);
    else
      part.columns.reset();
    first += size;
    if (!set(output, part))
      return false;
  }
  return true;
}

bool RowTracer::visitConcat(const ::onnx::NodeProto &node) {
  const Shape *to = known.shapeOf(node.output(0));
  std::optional<Rows> result;
  for (const std::string &input : node.input()) {
    const Rows *read = rowsOf(input);
    if (!read || !to ||
        normalized(intAttribute(node, "axis", 0), to->size()) == read->axis)
      return false;
    if (!result) {
      result = *read;
      continue;
    }
    if (result->mask != read->mask || result->axis != read->axis)
      return false;
    if (!read->columns)
      result->columns.reset();
    if (result->columns)
      append_range(*result->columns, *read->columns);
  }
  return result && set(node.output(0), *result);
}

bool RowTracer::visitScatter(const ::onnx::NodeProto &node) {
  if (addsRows(node))
    return true;
  if (!putsBack(node) && !writesWithin(node))
    return false;
  const Rows *whole = rowsOf(node.input(0));
  return !whole || set(node.output(0), {whole->mask, whole->axis});
}

/// Gemm and MatMul, of rows and what no mask selects.
bool RowTracer::visitProduct(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0)),
              *right = known.shapeOf(node.input(1)),
              *to = known.shapeOf(node.output(0));
  if (!onlyReads(node, 0) || !right || !to)
    return false;
  Rows result = *rowsOf(node.input(0));
  result.columns.reset();
  bool gemm = isOp(node, "Gemm");
  if (gemm && intAttribute(node, "transA", 0))
    result.axis = 1 - result.axis;
  else if (result.axis + 1 == int64_t(from->size()))
    return false;
  if (gemm && result.axis != 0)
    return false;
  if (gemm && node.input_size() > 2 && !node.input(2).empty()) {
    const Shape *bias = known.shapeOf(node.input(2));
    return bias && (bias->size() < 2 || bias->front() == 1) &&
           set(node.output(0), result);
  }
  // Matrices of several need rows along the last axis but one.
  if (!gemm && right->size() != 2) {
    if (result.axis + 2 != int64_t(from->size()) || right->size() < 2)
      return false;
    result.axis = int64_t(to->size()) - 2;
  }
  return set(node.output(0), result);
}

/// Norms and what is chosen of each row; softmaxes also over rows, of which
/// other places have a share of zero (UnselectedPlaces).
bool RowTracer::visitAlongAxis(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0));
  Rows result = *rowsOf(node.input(0));
  result.columns.reset();
  StringRef op = node.op_type();
  bool arg = op.starts_with("Arg");
  int64_t axis =
      normalized(intAttribute(node, "axis", arg ? 0 : -1), from->size());
  bool norm = op.ends_with("Normalization"), soft = op.ends_with("Softmax");
  if (!onlyReads(node, 0) ||
      (norm ? result.axis >= axis : result.axis == axis && !soft))
    return false;
  if (arg && !intAttribute(node, "keepdims", 1) && axis < result.axis)
    --result.axis;
  return all_of(node.output(), [&](const std::string &output) {
    return output.empty() || set(output, result);
  });
}

bool RowTracer::visitOneHot(const ::onnx::NodeProto &node) {
  const Shape *to = known.shapeOf(node.output(0));
  if (!onlyReads(node, 0) || !to)
    return false;
  Rows result = {rowsOf(node.input(0))->mask, rowsOf(node.input(0))->axis};
  if (normalized(intAttribute(node, "axis", -1), to->size()) <= result.axis)
    ++result.axis;
  return set(node.output(0), result);
}

bool RowTracer::visitReduction(const ::onnx::NodeProto &node) {
  const Shape *from = known.shapeOf(node.input(0));
  const Shape *axes =
      node.input_size() > 1 ? known.intsOf(node.input(1)) : nullptr;
  if (!axes || axes->empty() || !onlyReads(node, 0))
    return false;
  Rows result = *rowsOf(node.input(0));
  result.columns.reset();
  int64_t before = 0;
  for (int64_t axis : *axes) {
    axis = normalized(axis, from->size());
    if (axis == result.axis)
      return false;
    before += axis < result.axis;
  }
  if (!intAttribute(node, "keepdims", 1))
    result.axis -= before;
  return set(node.output(0), result);
}

/// Numbers that count the selected rows are those of places here: they may be
/// indices of these rows, and nothing else.
bool RowTracer::visit(const ::onnx::NodeProto &node) {
  static const StringSet<> layouts = {
      "Cast",  "Concat", "Expand", "Flatten", "Identity",  "Reshape",
      "Shape", "Slice",  "Split",  "Squeeze", "Transpose", "Unsqueeze"};
  auto among = [&](int i) {
    return i < node.input_size() && amongRows.contains(node.input(i));
  };
  bool moves = layouts.contains(node.op_type()) ||
               isOp(node, "Max") || // of which there is a shape
               (isOp(node, "Gather") && among(0) && !among(1));
  if (any_of(node.input(),
             [&](const auto &input) { return amongRows.contains(input); })) {
    StringRef op = node.op_type();
    bool indexes = (op.starts_with("Gather") || op.starts_with("Scatter")) &&
                   among(1) && !among(0) && !among(2) && isRead(node, 0) &&
                   (!op.ends_with("Elements") ||
                    normalized(intAttribute(node, "axis", 0),
                               known.shapeOf(node.input(0))->size()) ==
                        rowsOf(node.input(0))->axis);
    if (!moves && !indexes)
      return false;
    if (moves && op != "Shape")
      amongRows.insert_range(node.output());
  }
  return visitRows(node);
}

bool RowTracer::visitRows(const ::onnx::NodeProto &node) {
  StringRef op = node.op_type();
  if (op == "NonZero" && allMasks.contains(node.input(0))) {
    std::string mask = same.firstLike(node.input(0));
    if (rowsOf(mask))
      amongRows.insert(node.output(0));
    Shape all(known.shapeOf(mask)->size());
    std::iota(all.begin(), all.end(), 0);
    return set(node.output(0), {mask, 1, all});
  }
  if (std::string mask = maskCountedBy(node, known, allMasks); !mask.empty())
    sizes[node.output(0)] = {same.firstLike(mask), /*place=*/0,
                             /*counted=*/true};
  if (std::optional<bool> done = visitSizes(node))
    return *done;
  if (none_of(node.input(), [&](const auto &input) { return rowsOf(input); }))
    return true;
  if (op == "Shape") {
    visitShape(node);
    return true;
  }
  if (op == "Transpose") {
    Rows result = *rowsOf(node.input(0));
    const auto *perm = findAttribute(node, "perm");
    auto rank = int64_t(known.shapeOf(node.input(0))->size());
    result.axis = perm ? find(perm->ints(), result.axis) - perm->ints().begin()
                       : rank - 1 - result.axis;
    return set(node.output(0), result);
  }
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" ||
      op == "Flatten")
    return visitReshape(node);
  if (op == "Expand")
    return visitExpand(node);
  if (op == "Slice")
    return visitSlice(node);
  if (op == "Split" && isRead(node, 0))
    return visitSplit(node);
  if (op == "Concat")
    return visitConcat(node);
  if (op == "Gather")
    return visitGather(node);
  if (op == "GatherND")
    return visitGatherND(node);
  if (op == "GatherElements")
    return visitGatherElements(node);
  if ((op == "Gemm" || op == "MatMul") && isRead(node, 0))
    return visitProduct(node);
  static const StringSet<> alongAxis = {
      "Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "TopK",
      "ArgMax",  "ArgMin"};
  if (alongAxis.contains(op) && isRead(node, 0))
    return visitAlongAxis(node);
  if (isCrossEntropy(node))
    return visitCrossEntropy(node);
  if (op == "OneHot")
    return visitOneHot(node);
  if (reducesRows(node))
    return true;
  if (op.starts_with("Reduce") && isRead(node, 0))
    return visitReduction(node);
  if (op == "ScatterND" || op == "ScatterElements")
    return visitScatter(node);
  return isElementwise(op) && visitElementwise(node);
}

} // namespace shardonnx
