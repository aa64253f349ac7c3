// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of rows that a mask selects: as sizes of others they are the numbers
// of places, as numbers what they are. See RowsOfMask.h.

#include "KnownSizes.h"
#include "RowsOfMask.h"
#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {

using Shape = std::vector<int64_t>;

std::string maskCountedBy(const ::onnx::NodeProto &node,
                          const KnownTensors &known, const StringSet<> &masks) {
  if (!isOp(node, "ReduceSum") || intAttribute(node, "noop_with_empty_axes", 0))
    return "";
  const ::onnx::NodeProto *from = known.producerOf(node.input(0));
  if (!from || !isOp(*from, "Cast") ||
      intAttribute(*from, "to", 0) != ::onnx::TensorProto::INT64)
    return "";
  StringRef flags = from->input(0);
  if (const auto *flat = known.producerOf(flags);
      flat && isOp(*flat, "Reshape"))
    flags = flat->input(0);
  const Shape *shape = known.shapeOf(node.input(0)),
              *whole = known.shapeOf(flags);
  // Others than flags count for more than one.
  return shape && shape->size() == 1 && masks.contains(flags) &&
                 known.typeOf(flags) == ::onnx::TensorProto::BOOL &&
                 (!whole || elementsOf(*whole) == shape->front())
             ? flags.str()
             : "";
}

/// The shape of rows, or a part of it.
void RowTracer::visitShape(const ::onnx::NodeProto &node) {
  const Rows &of = *rowsOf(node.input(0));
  auto rank = int64_t(known.shapeOf(node.input(0))->size());
  auto bound = [&](StringRef name, int64_t otherwise) {
    return std::clamp<int64_t>(
        normalized(intAttribute(node, name, otherwise), rank), 0, rank);
  };
  int64_t start = bound("start", 0), end = bound("end", rank);
  if (of.axis >= start && of.axis < end)
    sizes[node.output(0)] = {of.mask, of.axis - start, /*counted=*/false};
}

/// Where the number stands after a node that passes it on; nothing where that
/// cannot be told, -1 where the number is not among them any longer.
std::optional<int64_t> RowTracer::placeAfter(const ::onnx::NodeProto &node,
                                             int input, int64_t place) const {
  if (isOp(node, "Concat")) {
    for (int i = 0; i < input; ++i) {
      const Shape *before = known.shapeOf(node.input(i));
      if (!before)
        return std::nullopt;
      place += elementsOf(*before);
    }
    return place;
  }
  const Shape *from = known.shapeOf(node.input(0));
  if (isOp(node, "Gather")) {
    const Shape *which = known.intsOf(node.input(1));
    if (!which || !from || from->size() != 1)
      return std::nullopt;
    auto found = find_if(*which, [&](int64_t index) {
      return normalized(index, size_t(from->front())) == place;
    });
    return found == which->end() ? -1 : found - which->begin();
  }
  if (isOp(node, "Slice")) {
    const Shape *starts = known.intsOf(node.input(1)),
                *ends = known.intsOf(node.input(2));
    if (!starts || !ends || !from || starts->size() != 1 || ends->size() != 1 ||
        node.input_size() > 4)
      return std::nullopt;
    auto size = size_t(from->front());
    int64_t start = std::max<int64_t>(normalized(starts->front(), size), 0);
    return place < start || place >= normalized(ends->front(), size)
               ? -1
               : place - start;
  }
  return place;
}

/// What is made with as many rows: Expand, ConstantOfShape and Range.
bool RowTracer::makesRows(const ::onnx::NodeProto &node, int input,
                          const RowCount &count) {
  if (count.place < 0)
    return false;
  if (isOp(node, "Range")) {
    if (input != 1 || sizesIn(known, node.input(0)) != Shape{0} ||
        sizesIn(known, node.input(2)) != Shape{1})
      return false;
    known.setShape(node.output(0), {countOf(count.mask)});
    amongRows.insert(node.output(0));
    return set(node.output(0), {count.mask, 0});
  }
  const Shape *to = known.shapeOf(node.output(0)),
              *list = known.shapeOf(node.input(input));
  if (!to || !list || list->size() != 1)
    return false;
  int64_t axis = count.place + int64_t(to->size()) - list->front();
  if (isOp(node, "ConstantOfShape"))
    return set(node.output(0), {count.mask, axis});
  const Shape *from = known.shapeOf(node.input(0));
  if (!isOp(node, "Expand") || input != 1 || !from)
    return false;
  int64_t own = axis + int64_t(from->size()) - int64_t(to->size());
  return (own < 0 || (*from)[own] == 1) &&
         set(node.output(0), {count.mask, axis});
}

/// What passes a number of rows on.
static bool keepsSizes(StringRef op) {
  static const StringSet<> ops = {"Cast",    "Concat", "Gather",  "Identity",
                                  "Reshape", "Slice",  "Squeeze", "Unsqueeze"};
  return ops.contains(op);
}

/// Whether node replaces sizes of -1 by others, as PyTorch's older exporter
/// writes expand().
static bool replacesUntold(const ::onnx::NodeProto &node,
                           const KnownTensors &known) {
  const ::onnx::NodeProto *equal =
      isOp(node, "Where") ? known.producerOf(node.input(0)) : nullptr;
  return equal && isOp(*equal, "Equal") && equal->input(0) == node.input(2);
}

/// What makes something of a size.
static bool takesSize(StringRef op) {
  static const StringSet<> ops = {"ConstantOfShape", "Expand", "Range",
                                  "Reshape", "Slice"};
  return ops.contains(op);
}

bool RowTracer::readsNumber(const ::onnx::NodeProto &node, int input) const {
  return isNumberOfRows(node.input(input)) && !keepsSizes(node.op_type()) &&
         !takesSize(node.op_type()) && !replacesUntold(node, known);
}

/// What reads numbers of rows; nothing where the node reads none.
std::optional<bool> RowTracer::visitSizes(const ::onnx::NodeProto &node) {
  StringRef op = node.op_type();
  const RowCount *read = nullptr;
  int input = 0;
  for (auto [i, name] : enumerate(node.input())) {
    const RowCount *count = countAt(name);
    if (!count)
      continue;
    if (read && (read->mask != count->mask || keepsSizes(op)))
      return false;
    read = count;
    input = int(i);
  }
  if (!read)
    return std::nullopt;
  bool shapes = op == "Expand" || op == "Reshape";
  if ((shapes || op == "Slice") && isRead(node, 0))
    return std::nullopt;
  if (op == "Expand" || op == "ConstantOfShape" || op == "Range")
    return makesRows(node, input, *read);
  if (shapes && input == 1)
    return false;
  if (!keepsSizes(op) && !replacesUntold(node, known)) {
    bool rows =
        any_of(node.input(), [&](const auto &name) { return rowsOf(name); });
    return !isNumber(node.input(input)) ? std::optional(false)
           : rows                       ? std::nullopt
                                        : std::optional(true);
  }
  RowCount result = *read;
  std::optional<int64_t> place = placeAfter(node, input, read->place);
  if (place == -1)
    return true;
  result.place = place.value_or(-1);
  sizes[node.output(0)] = result;
  return true;
}

/// Whether it is known which of its numbers is that of rows.
bool RowTracer::isNumber(StringRef name) const {
  const RowCount *count = countAt(name);
  return count->counted || (count->place >= 0 && known.shapeOf(name));
}

} // namespace shardonnx
