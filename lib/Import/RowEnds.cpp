// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where rows end: put back, or reduced to one. See RowWriter.h.

#include "RowWriter.h"

using namespace llvm;

namespace shardonnx {

using Shape = std::vector<int64_t>;

void RowWriter::putBack(const ::onnx::NodeProto &node) {
  const Rows &indices = *tracer.rowsOf(node.input(1));
  const auto *reduction = findAttribute(node, "reduction");
  std::optional<std::string> added = tracer.addedBy(node);
  if (reduction && reduction->s() == "add")
    added = node.input(2);
  if (!added && indices.columns->size() == known.shapeOf(indices.mask)->size())
    return replace(node, indices);
  std::string rows = added.value_or(node.input(2));
  std::string sum = sumToData(
      selected(rows, {indices.mask, 0}, numberOf(known.typeOf(rows), 0)), node,
      indices);
  if (added)
    writer.add("Add", {node.input(0), sum}, {node.output(0)});
  else if (known.isZero(node.input(0)))
    writer.add("Identity", {sum}, {node.output(0)});
  else
    writer.add("Where", {anyOf(node, indices), sum, node.input(0)},
               {node.output(0)});
}

/// Each element of the data has a place of the mask.
void RowWriter::replace(const ::onnx::NodeProto &node, const Rows &indices) {
  const Shape &mask = *known.shapeOf(indices.mask),
              &data = *known.shapeOf(node.input(0));
  ArrayRef<int64_t> rest = ArrayRef(data).drop_front(mask.size());
  Shape back = backFrom(*indices.columns, data.size());
  Shape flags = mask, full = mask;
  flags.resize(data.size(), 1);
  append_range(full, rest);
  std::string chosen = transpose(reshape(validOf(indices.mask), flags), back);
  std::string values = transpose(reshape(node.input(2), full), back);
  writer.add("Where", {chosen, values, node.input(0)}, {node.output(0)});
}

/// Sums over the mask's axes that indices do not count along, in the shape of
/// what rows are put back to.
std::string RowWriter::sumToData(std::string rows,
                                 const ::onnx::NodeProto &node,
                                 const Rows &indices) {
  const Shape &mask = *known.shapeOf(indices.mask),
              &data = *known.shapeOf(node.input(0)),
              &columns = *indices.columns;
  Shape full = mask, others;
  append_range(full, ArrayRef(data).drop_front(columns.size()));
  rows = reshape(rows, full);
  for (size_t axis = 0; axis < mask.size(); ++axis)
    if (!is_contained(columns, int64_t(axis)))
      others.push_back(int64_t(axis));
  if (!others.empty()) {
    std::string sum = writer.names.newName(rows + "_sum");
    std::string axes = writer.addConstant(asTensor(others), sum + "_axes");
    addAttribute(writer.add("ReduceSum", {rows, axes}, {sum}), "keepdims",
                 int64_t(0));
    rows = sum;
  }
  return transpose(rows, backFrom(columns, data.size()));
}

/// Of each element of the data, whether a row is put there.
std::string RowWriter::anyOf(const ::onnx::NodeProto &node,
                             const Rows &indices) {
  int type = known.typeOf(node.input(2));
  std::string ones = writer.names.newName(indices.mask + "_ones"),
              any = writer.names.newName(indices.mask + "_any");
  addAttribute(writer.add("Cast", {validOf(indices.mask)}, {ones}), "to",
               int64_t(type));
  Shape shape(known.shapeOf(node.input(2))->size(), 1);
  shape[0] = -1;
  std::string to = writer.addConstant(asTensor(*known.shapeOf(node.input(2))),
                                      ones + "_shape"),
              rows = writer.names.newName(ones + "_rows");
  writer.add("Expand", {reshape(ones, shape), to}, {rows});
  std::string zero = writer.addConstant(numberOf(type, 0), any + "_zero");
  writer.add("Greater", {sumToData(rows, node, indices), zero}, {any});
  return any;
}

/// Labels of other places do not count.
void RowWriter::ignoreOthers(const ::onnx::NodeProto &node) {
  constexpr int64_t kIgnored = -100;
  const auto *ignored = findAttribute(node, "ignore_index");
  ::onnx::TensorProto label = asTensor({ignored ? ignored->i() : kIgnored});
  label.clear_dims();
  std::string labels =
      selected(node.input(1), *tracer.rowsOf(node.input(1)), label);
  ::onnx::NodeProto changed = node;
  changed.set_input(0, harmless(node, 0));
  changed.set_input(1, labels);
  if (!ignored)
    addAttribute(changed, "ignore_index", kIgnored);
  writer.keep(changed);
}

/// Of a sum the rows of other places are zeros, by which a mean divides not; so
/// with other reductions.
void RowWriter::reduce(const ::onnx::NodeProto &node) {
  const Rows &rows = *tracer.rowsOf(node.input(0));
  const Shape &from = *known.shapeOf(node.input(0));
  const Shape *axes = node.input_size() > 1 && !node.input(1).empty()
                          ? known.intsOf(node.input(1))
                          : nullptr;
  int64_t each = 1; // so many elements of each row
  for (auto [axis, size] : enumerate(from)) {
    bool reduced = !axes || any_of(*axes, [&](int64_t item) {
      return normalized(item, from.size()) == int64_t(axis);
    });
    if (!reduced && size == 0) {
      ::onnx::NodeProto same = node;
      return writer.keep(same);
    }
    if (reduced && int64_t(axis) != rows.axis)
      each *= size;
  }
  int type = known.typeOf(node.input(0));
  std::vector<std::string> inputs(node.input().begin(), node.input().end());
  inputs[0] =
      selected(node.input(0), rows, numberOf(type, *neutralOf(node.op_type())));
  bool mean = isOp(node, "ReduceMean");
  std::string sum =
      mean ? writer.names.newName(node.output(0) + "_sum") : node.output(0);
  *writer.add(mean ? "ReduceSum" : node.op_type(), inputs, {sum})
       .mutable_attribute() = node.attribute();
  if (!mean)
    return;
  std::string flags = writer.names.newName(sum + "_flags"),
              count = writer.names.newName(sum + "_rows"),
              share = writer.names.newName(sum + "_share");
  addAttribute(writer.add("Cast", {validOf(rows.mask)}, {flags}), "to",
               int64_t(type));
  addAttribute(writer.add("ReduceSum", {flags}, {count}), "keepdims",
               int64_t(0));
  writer.add("Div", {sum, count}, {share});
  std::string size = writer.addConstant(asTensor({each}), sum + "_size"),
              elements = writer.names.newName(sum + "_elements");
  size = reshape(size, {});
  addAttribute(writer.add("Cast", {size}, {elements}), "to", int64_t(type));
  writer.add("Div", {share, elements}, {node.output(0)});
}

} // namespace shardonnx
