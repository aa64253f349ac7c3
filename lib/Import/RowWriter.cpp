// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See RowWriter.h.

#include "RowWriter.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>
#include <numeric>

using namespace llvm;

namespace shardonnx {

using Shape = std::vector<int64_t>;

namespace {

/// Indices of more places would fill the file's format.
constexpr int64_t kMostIndices = int64_t(1) << 24;

/// The indices of all places of a mask of this shape, as NonZero gives them.
::onnx::TensorProto allPlaces(ArrayRef<int64_t> shape) {
  int64_t count = elementsOf(shape);
  ::onnx::TensorProto places;
  places.set_data_type(::onnx::TensorProto::INT64);
  places.add_dims(int64_t(shape.size()));
  places.add_dims(count);
  int64_t stride = count;
  for (int64_t size : shape) {
    stride /= size;
    for (int64_t i = 0; i < count; ++i)
      places.add_int64_data(i / stride % size);
  }
  return places;
}

template <typename T> std::string bytesOf(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

} // namespace

::onnx::TensorProto numberOf(int type, double value) {
  ::onnx::TensorProto number;
  number.set_data_type(type);
  auto half = [&](const fltSemantics &semantics) {
    APFloat bits{float(value)};
    bool exact;
    bits.convert(semantics, APFloat::rmNearestTiesToEven, &exact);
    return bytesOf(uint16_t(bits.bitcastToAPInt().getZExtValue()));
  };
  number.set_raw_data(
      type == ::onnx::TensorProto::DOUBLE     ? bytesOf(value)
      : type == ::onnx::TensorProto::FLOAT    ? bytesOf(float(value))
      : type == ::onnx::TensorProto::FLOAT16  ? half(APFloat::IEEEhalf())
      : type == ::onnx::TensorProto::BFLOAT16 ? half(APFloat::BFloat())
      : type == ::onnx::TensorProto::INT64    ? bytesOf(int64_t(value))
      : type == ::onnx::TensorProto::INT32    ? bytesOf(int32_t(value))
      : type == ::onnx::TensorProto::INT16    ? bytesOf(int16_t(value))
                                              : bytesOf(int8_t(value)));
  return number;
}

/// The order of axes that has those of the mask in the mask's own.
static Shape orderOf(const Shape &columns, size_t rank) {
  Shape perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::sort(perm.begin(), perm.begin() + columns.size(),
            [&](int64_t a, int64_t b) { return columns[a] < columns[b]; });
  return perm;
}

Shape backFrom(const Shape &columns, size_t rank) {
  Shape back(rank);
  for (auto [i, axis] : enumerate(orderOf(columns, rank)))
    back[axis] = int64_t(i);
  return back;
}

std::string RowWriter::reshape(const std::string &value,
                               ArrayRef<int64_t> shape) {
  std::string result = writer.names.newName(value + "_places");
  std::string sizes = writer.addConstant(asTensor(shape), result + "_shape");
  writer.add("Reshape", {value, sizes}, {result});
  return result;
}

std::string RowWriter::transpose(const std::string &value,
                                 ArrayRef<int64_t> perm) {
  if (is_sorted(perm))
    return value;
  std::string result = writer.names.newName(value + "_axes");
  addAttribute(writer.add("Transpose", {value}, {result}), "perm", perm);
  return result;
}

/// By a name that is not there yet: most indices are read by nobody then.
void RowWriter::giveAllPlaces(const ::onnx::NodeProto &node) {
  std::string &all = places[*known.shapeOf(node.input(0))];
  if (all.empty())
    all = writer.names.newName(node.output(0) + "_all");
  writer.add("Identity", {all}, {node.output(0)});
}

/// Drops indices that nobody reads, and makes those that somebody does. False
/// where these are too many.
bool RowWriter::finish() {
  StringSet<> reads;
  for (const auto &output : writer.graph.output())
    reads.insert(output.name());
  std::vector<::onnx::NodeProto> kept;
  for (::onnx::NodeProto &node : reverse(*writer.graph.mutable_node())) {
    bool indices = node.output_size() > 0 &&
                   all_of(node.output(), [&](const std::string &output) {
                     const Rows *rows = tracer.rowsOf(output);
                     return rows && rows->columns && !reads.contains(output);
                   });
    if (indices)
      continue;
    reads.insert_range(node.input());
    kept.emplace_back().Swap(&node);
  }
  writer.graph.clear_node();
  for (const auto &[shape, name] : places) {
    if (!reads.contains(name))
      continue;
    if (elementsOf(shape) > kMostIndices)
      return false;
    ::onnx::NodeProto &constant =
        appendNode(writer.graph, "Constant", {}, {name});
    addAttribute(constant, "value", allPlaces(shape));
  }
  for (::onnx::NodeProto &node : reverse(kept))
    writer.graph.add_node()->Swap(&node);
  return true;
}

/// Whether each place is selected, a vector. Of a mask that is made of rows
/// itself, only places of selected ones are.
std::string RowWriter::validOf(const std::string &mask) {
  std::string &flags = valid[mask];
  if (!flags.empty())
    return flags;
  if (const ElementsOfRows *elements = tracer.elementsOfRows(mask)) {
    std::string each = writer.names.newName(elements->mask + "_each");
    writer.add("Expand",
               {reshape(validOf(elements->mask), {-1, 1}),
                writer.addConstant(asTensor(*known.shapeOf(mask)), each)},
               {each});
    return flags = reshape(each, {-1});
  }
  flags = mask;
  if (known.typeOf(mask) != ::onnx::TensorProto::BOOL) {
    flags = writer.names.newName(mask + "_flags");
    addAttribute(writer.add("Cast", {mask}, {flags}), "to",
                 int64_t(::onnx::TensorProto::BOOL));
  }
  if (const Rows *rows = tracer.rowsOf(mask)) {
    Shape shape(known.shapeOf(mask)->size(), 1);
    shape[rows->axis] = -1;
    std::string both = writer.names.newName(mask + "_both");
    writer.add("And", {flags, reshape(validOf(rows->mask), shape)}, {both});
    flags = both;
  }
  return flags = reshape(flags, {-1});
}

/// Something else in the rows of places that are not.
std::string RowWriter::selected(const std::string &rows, const Rows &of,
                                ::onnx::TensorProto otherwise) {
  std::string result = writer.names.newName(rows + "_selected");
  select(rows, of, known.shapeOf(rows)->size(), otherwise, result);
  return result;
}

void RowWriter::select(const std::string &rows, const Rows &of, size_t rank,
                       const ::onnx::TensorProto &otherwise,
                       const std::string &result) {
  Shape shape(rank, 1);
  shape[of.axis] = -1;
  std::string other = writer.addConstant(otherwise, rows + "_other");
  writer.add("Where", {reshape(validOf(of.mask), shape), rows, other},
             {result});
}

/// What the node reads instead of an input: numbers that are harmless in places
/// that are not selected, and how many rows there are as a number.
std::string RowWriter::harmless(const ::onnx::NodeProto &node, int input) {
  const std::string &name = node.input(input);
  if (std::optional<double> number = others.neededBy(node, input))
    return selected(name, *tracer.rowsOf(name),
                    numberOf(known.typeOf(name), *number));
  return name;
}

/// A node that is computed of each row, or of their number.
void RowWriter::compute(::onnx::NodeProto &node) {
  ::onnx::NodeProto changed = node;
  for (int i = 0; i < node.input_size(); ++i)
    if (tracer.rowsOf(node.input(i)))
      changed.set_input(i, harmless(node, i));
    else if (tracer.readsNumber(node, i))
      changed.set_input(i, numberOfRows(node.input(i)));
  if (!others.picksUnknown(node)) {
    if (!spread(node, node.output(0)))
      writer.keep(changed);
    return;
  }
  std::string picked = writer.names.newName(node.output(0) + "_picked");
  changed.set_output(0, picked);
  if (!spread(node, picked))
    writer.keep(changed);
  select(picked, *tracer.rowsOf(node.output(0)),
         known.shapeOf(node.output(0))->size(),
         numberOf(known.typeOf(node.output(0)), 0), node.output(0));
}

/// Of a size, which counts the places, or a list with it, how many of them are
/// selected.
std::string RowWriter::numberOfRows(const std::string &size) {
  const RowCount &of = *tracer.countAt(size);
  const Shape &shape = *known.shapeOf(size);
  std::string ones = writer.names.newName(size + "_ones"),
              count = writer.names.newName(size + "_rows"),
              number = writer.names.newName(size + "_number"),
              result = writer.names.newName(size + "_selected");
  addAttribute(writer.add("Cast", {validOf(of.mask)}, {ones}), "to",
               int64_t(::onnx::TensorProto::INT64));
  addAttribute(writer.add("ReduceSum", {ones}, {count}), "keepdims",
               int64_t(0));
  addAttribute(writer.add("Cast", {count}, {number}), "to",
               int64_t(known.typeOf(size)));
  ::onnx::TensorProto here;
  here.set_data_type(::onnx::TensorProto::BOOL);
  for (int64_t length : shape)
    here.add_dims(length);
  for (int64_t i = 0; i < elementsOf(shape); ++i)
    here.add_int32_data(i == of.place);
  writer.add("Where",
             {writer.addConstant(here, result + "_here"), number, size},
             {result});
  return result;
}

/// Rows of the data by the places of a mask are a broadcast along its other
/// axes. False where node is none such.
bool RowWriter::spread(const ::onnx::NodeProto &node,
                       const std::string &result) {
  if (!(isOp(node, "GatherND") || isOp(node, "Gather")) ||
      !tracer.rowsOf(node.output(0)))
    return false;
  const Rows *indices = tracer.rowsOf(node.input(1));
  if (!indices || !indices->columns || indices->axis != 0 ||
      known.shapeOf(node.input(1))->size() != (isOp(node, "Gather") ? 1 : 2) ||
      known.shapeOf(node.input(1))->back() !=
          (isOp(node, "Gather") ? known.shapeOf(node.input(1))->front()
                                : int64_t(indices->columns->size())))
    return false;
  if (const auto *axis = findAttribute(node, "axis"); axis && axis->i() != 0)
    return false;
  const Shape &columns = *indices->columns,
              &mask = *known.shapeOf(indices->mask),
              &data = *known.shapeOf(node.input(0));
  if (data.size() < columns.size())
    return false;
  Shape sizes(mask.size(), 1);
  for (auto [axis, column] : enumerate(columns)) {
    if (data[axis] != mask[column] || sizes[column] != 1)
      return false;
    sizes[column] = mask[column];
  }
  ArrayRef<int64_t> rest = ArrayRef(data).drop_front(columns.size());
  Shape full = mask;
  append_range(sizes, rest);
  append_range(full, rest);
  std::string value = transpose(node.input(0), orderOf(columns, data.size()));
  value = reshape(value, sizes);
  if (sizes != full) {
    std::string all = writer.names.newName(value + "_all");
    std::string to = writer.addConstant(asTensor(full), all + "_shape");
    writer.add("Expand", {value, to}, {all});
    value = all;
  }
  std::string to = writer.addConstant(asTensor(*known.shapeOf(node.output(0))),
                                      node.output(0) + "_shape");
  writer.add("Reshape", {value, to}, {result});
  return true;
}

/// Expand to a size of rows, and Reshape to what was counted, ConstantOfShape
/// and Range. False where node is none such.
bool RowWriter::shapeRows(const ::onnx::NodeProto &node) {
  if (node.output_size() == 0 || !tracer.rowsOf(node.output(0)))
    return false;
  bool whole = isOp(node, "ConstantOfShape"), range = isOp(node, "Range");
  if (whole || range) {
    const Shape &shape = *known.shapeOf(node.output(0));
    ::onnx::TensorProto size = asTensor(shape);
    if (range)
      size.clear_dims();
    ::onnx::NodeProto changed = node;
    changed.set_input(range ? 1 : 0,
                      writer.addConstant(size, node.output(0) + "_size"));
    writer.keep(changed);
    return true;
  }
  if (!(isOp(node, "Expand") || isOp(node, "Reshape")) ||
      node.input_size() < 2 ||
      (known.intsOf(node.input(1)) && !tracer.countAt(node.input(1))))
    return false;
  std::string to = writer.addConstant(asTensor(*known.shapeOf(node.output(0))),
                                      node.output(0) + "_shape");
  writer.add(node.op_type(), {node.input(0), to}, {node.output(0)});
  return true;
}

} // namespace shardonnx
