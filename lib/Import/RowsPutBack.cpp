// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where rows that a mask selects end: put back to where they came from, or
// reduced. See RowsOfMask.h.

#include "RowsOfMask.h"

#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

#include <limits>

using namespace llvm;

namespace shardonnx {

using Shape = std::vector<int64_t>;

std::optional<double> neutralOf(StringRef op) {
  static const double infinity = std::numeric_limits<double>::infinity();
  static const StringMap<double> numbers = {
      {"ReduceL1", 0},          {"ReduceL2", 0},
      {"ReduceLogSum", 0},      {"ReduceLogSumExp", -infinity},
      {"ReduceMax", -infinity}, {"ReduceMean", 0},
      {"ReduceMin", infinity},  {"ReduceProd", 1},
      {"ReduceSum", 0},         {"ReduceSumSquare", 0}};
  auto found = numbers.find(op);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

bool isCrossEntropy(const ::onnx::NodeProto &node) {
  return isOp(node, "SoftmaxCrossEntropyLoss") ||
         isOp(node, "NegativeLogLikelihoodLoss");
}

/// Whether a cross-entropy has a number for each row.
static bool keepsRows(const ::onnx::NodeProto &node) {
  const auto *reduction = findAttribute(node, "reduction");
  return reduction && reduction->s() == "none";
}

/// Whether a cross-entropy is of rows and their labels.
bool RowTracer::crossEntropyOfRows(const ::onnx::NodeProto &node) const {
  const Rows *read = rowsOf(node.input(0)), *labels = rowsOf(node.input(1));
  return read && labels && labels->mask == read->mask && read->axis == 0 &&
         known.shapeOf(node.input(0))->size() == 2 && !isRead(node, 2) &&
         known.typeOf(node.input(1)) == ::onnx::TensorProto::INT64 &&
         (node.output_size() < 2 || node.output(1).empty());
}

bool RowTracer::visitCrossEntropy(const ::onnx::NodeProto &node) {
  return crossEntropyOfRows(node) &&
         (!keepsRows(node) ||
          set(node.output(0), {rowsOf(node.input(0))->mask, 0}));
}

bool RowTracer::reducesRows(const ::onnx::NodeProto &node) const {
  const Rows *read = rowsOf(node.input(0));
  int type = known.typeOf(node.input(0));
  bool whole = isOp(node, "ReduceSum") && (type == ::onnx::TensorProto::INT64 ||
                                           type == ::onnx::TensorProto::INT32);
  if (!read || !(isFloat(type) || whole))
    return false;
  if (isCrossEntropy(node))
    return crossEntropyOfRows(node) && !keepsRows(node);
  if (!neutralOf(node.op_type()) || !onlyReads(node, 0) ||
      intAttribute(node, "noop_with_empty_axes", 0))
    return false;
  if (node.input_size() < 2 || node.input(1).empty())
    return true; // all axes
  const Shape *axes = known.intsOf(node.input(1));
  return axes && any_of(*axes, [&](int64_t axis) {
           return normalized(axis, known.shapeOf(node.input(0))->size()) ==
                  read->axis;
         });
}

/// Which axis of an input an axis of the node's result is, whole and in any
/// order; nothing where it is none, or the node may repeat what is along it.
std::optional<int64_t> RowTracer::axisBefore(const ::onnx::NodeProto &node,
                                             int input, int64_t axis) const {
  const Shape *from = known.shapeOf(node.input(input)),
              *to = known.shapeOf(node.output(0));
  StringRef op = node.op_type();
  if (!from || !to)
    return std::nullopt;
  int64_t size = (*to)[axis];
  if (op == "Transpose") {
    const auto *perm = findAttribute(node, "perm");
    axis = perm ? perm->ints(int(axis)) : int64_t(to->size()) - 1 - axis;
  } else if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze") {
    int64_t wanted = elementsOf(ArrayRef(*to).take_front(axis)), before = 1;
    for (axis = 0; axis < int64_t(from->size()); before *= (*from)[axis++])
      if (before == wanted && (*from)[axis] == size)
        break;
  } else if (op == "Gather") {
    const Shape *which = known.shapeOf(node.input(1));
    int64_t along = normalized(intAttribute(node, "axis", 0), from->size());
    if (!which || (axis >= along && axis < along + int64_t(which->size())))
      return std::nullopt;
    if (axis > along)
      axis -= int64_t(which->size()) - 1;
  } else if (op == "OneHot") {
    int64_t along = normalized(intAttribute(node, "axis", -1), to->size());
    if (axis == along)
      return std::nullopt;
    axis -= axis > along;
  } else if (op == "Equal") {
    axis += int64_t(from->size()) - int64_t(to->size());
  } else if (op != "Slice" && op != "Split" && op != "Cast" &&
             op != "CastLike" && op != "Identity") {
    return std::nullopt;
  }
  return axis >= 0 && axis < int64_t(from->size()) && (*from)[axis] == size
             ? std::optional(axis)
             : std::nullopt;
}

/// Whether no two places that a mask selects have the same indices: they are
/// those along all axes, or of the others no more than one is chosen, as of the
/// places of TopK.
bool RowTracer::choosesOnce(const Rows &indices) const {
  const Shape &shape = *known.shapeOf(indices.mask);
  int64_t other = -1;
  for (auto [axis, size] : enumerate(shape))
    if (!is_contained(*indices.columns, int64_t(axis)) && size != 1) {
      if (other >= 0)
        return false;
      other = int64_t(axis);
    }
  if (other < 0)
    return true;
  StringRef name = indices.mask;
  while (const ::onnx::NodeProto *node = known.producerOf(name)) {
    const Shape *places = known.shapeOf(name);
    if (!places)
      return false;
    if (isOp(*node, "TopK"))
      return node->output(1) == name &&
             normalized(intAttribute(*node, "axis", -1), places->size()) ==
                 other;
    // One number for all places, or one for each expert.
    bool equal = isOp(*node, "Equal");
    bool second = equal && known.isConstant(node->input(0));
    if (equal) {
      const std::string &number = node->input(second ? 0 : 1);
      const Shape *sizes = known.shapeOf(number);
      if (!known.isConstant(number) || !sizes)
        return false;
      int64_t own = other + int64_t(sizes->size()) - int64_t(places->size());
      if (own >= 0 && (*sizes)[own] != 1)
        return false;
    }
    std::optional<int64_t> before = axisBefore(*node, second ? 1 : 0, other);
    if (!before)
      return false;
    other = *before;
    name = node->input(second ? 1 : 0);
  }
  return false;
}

/// Whether they are one for each row and column, [rows, columns].
bool RowTracer::areIndices(StringRef name, size_t columns) const {
  const Rows *indices = rowsOf(name);
  const Shape *shape = known.shapeOf(name);
  return indices && indices->columns && indices->axis == 0 &&
         indices->columns->size() == columns && shape->size() == 2 &&
         (*shape)[1] == int64_t(columns);
}

/// Whether a mask is of all rows of the data: where these are rows of another
/// mask, it is made of them as well, and its numbers of rows count along these.
/// All indices are along one axis of the data, or along one each.
bool RowTracer::isMaskOf(const Rows &indices, StringRef data,
                         std::optional<int64_t> along) const {
  const Rows *whole = rowsOf(data), *of = rowsOf(indices.mask);
  if (!whole || !of)
    return !whole && !of;
  bool counts = false;
  for (auto [i, column] : enumerate(*indices.columns)) {
    bool rowsHere = along.value_or(int64_t(i)) == whole->axis;
    if (rowsHere != (column == of->axis))
      return false;
    counts |= rowsHere;
  }
  return counts && of->mask == whole->mask && of->axis == whole->axis;
}

/// Whether node, a ScatterElements, writes within each row.
bool RowTracer::writesWithin(const ::onnx::NodeProto &node) const {
  const Rows *data = rowsOf(node.input(0));
  return isOp(node, "ScatterElements") && data &&
         normalized(intAttribute(node, "axis", 0),
                    known.shapeOf(node.input(0))->size()) != data->axis &&
         all_of(node.input(), [&](const std::string &input) {
           const Rows *rows = rowsOf(input);
           return rows && rows->mask == data->mask && rows->axis == data->axis;
         });
}

bool RowTracer::addsRows(const ::onnx::NodeProto &node) const {
  const auto *reduction = findAttribute(node, "reduction");
  const Rows *indices = rowsOf(node.input(1)), *updates = rowsOf(node.input(2));
  return reduction && reduction->s() == "add" && !rowsOf(node.input(0)) &&
         !putsBack(node) && indices && updates &&
         indices->mask == updates->mask && indices->axis == 0 &&
         updates->axis == 0 &&
         (isOp(node, "ScatterND") ? known.shapeOf(node.input(1))->size() > 1
                                  : intAttribute(node, "axis", 0) == 0);
}

bool RowTracer::putsBack(const ::onnx::NodeProto &node) const {
  const Rows *indices = rowsOf(node.input(1)), *updates = rowsOf(node.input(2));
  const Shape *data = known.shapeOf(node.input(0));
  if (!indices || !updates || !indices->columns ||
      !isMaskOf(*indices, node.input(0)) || indices->axis != 0 ||
      updates->axis != 0 || indices->mask != updates->mask || !data ||
      data->size() < indices->columns->size())
    return false;
  if (isOp(node, "ScatterElements")) {
    // All elements of a row go to one row.
    const Shape &shape = *known.shapeOf(node.input(1));
    if (intAttribute(node, "axis", 0) != 0 || indices->columns->size() != 1 ||
        shape.size() != 2 || data->size() != 2 || shape[1] != (*data)[1] ||
        *known.shapeOf(node.input(2)) != shape)
      return false;
  } else if (!areIndices(node.input(1), indices->columns->size())) {
    return false;
  }
  const Shape &mask = *known.shapeOf(indices->mask);
  for (auto [axis, column] : enumerate(*indices->columns))
    if ((*data)[axis] != mask[column])
      return false;
  const ::onnx::AttributeProto *reduction = findAttribute(node, "reduction");
  bool adds = isFloat(known.typeOf(node.input(2)));
  if (reduction && reduction->s() != "none")
    return adds && reduction->s() == "add";
  // Each place once: else the last of several would decide.
  return choosesOnce(*indices) &&
         (adds || indices->columns->size() == mask.size());
}

std::optional<std::string>
RowTracer::addedBy(const ::onnx::NodeProto &node) const {
  const ::onnx::NodeProto *add =
      known.producerOf(known.sourceOf(node.input(2)));
  const Rows *indices = rowsOf(node.input(1));
  if (!add || !isOp(*add, "Add"))
    return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const ::onnx::NodeProto *read =
        known.producerOf(known.sourceOf(add->input(i)));
    if (!read || !(isOp(*read, "GatherND") || isOp(*read, "Gather")) ||
        known.sourceOf(read->input(0)) != known.sourceOf(node.input(0)))
      continue;
    const std::string &added = add->input(1 - i);
    const Rows *places = rowsOf(read->input(1)), *rowsAdded = rowsOf(added);
    const Shape *shape = known.shapeOf(added);
    if (places && places->columns == indices->columns &&
        places->mask == indices->mask && intAttribute(*read, "axis", 0) == 0 &&
        rowsAdded && shape && *shape == *known.shapeOf(node.input(2)))
      return added;
  }
  return std::nullopt;
}

} // namespace shardonnx
