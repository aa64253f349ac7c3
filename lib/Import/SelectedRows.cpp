// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SelectedRows.h.

#include "SelectedRows.h"

#include "NodeWriter.h"
#include "OnnxLibrary.h"
#include "RowsOfMask.h"

#include "llvm/Support/Error.h"

#include <numeric>

using namespace llvm;

namespace shardonnx {
namespace {

using Shape = std::vector<int64_t>;

/// Indices of more places would fill the file's format.
constexpr int64_t kMostIndices = int64_t(1) << 24;

std::string describe(const ::onnx::NodeProto &node) {
  return "'" + node.name() + "' (" + node.op_type() + ")";
}

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

/// A zero of this type.
::onnx::TensorProto zeroOf(int type) {
  ::onnx::TensorProto zero;
  zero.set_data_type(type);
  size_t bytes = type == ::onnx::TensorProto::DOUBLE  ? 8
                 : type == ::onnx::TensorProto::FLOAT ? 4
                                                      : 2;
  zero.set_raw_data(std::string(bytes, '\0'));
  return zero;
}

/// As many as there are places.
::onnx::TensorProto countOf(int64_t places, bool keepsAxis) {
  ::onnx::TensorProto number = asTensor({places});
  if (!keepsAxis)
    number.clear_dims();
  return number;
}

/// How many places there are; nothing where the shape is not known, or none.
std::optional<int64_t> placesOf(const Shape *mask) {
  constexpr int64_t kMost = int64_t(1) << 31;
  return mask && !mask->empty() ? elementsUpTo(*mask, kMost) : std::nullopt;
}

/// Has the node give an input of the graph, i64 [axes, places].
void makeInput(::onnx::GraphProto &graph, ::onnx::NodeProto &node, int64_t axes,
               int64_t places) {
  ::onnx::ValueInfoProto &input = *graph.add_input();
  input.set_name(node.output(0) + "_places");
  auto &type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(::onnx::TensorProto::INT64);
  for (int64_t size : {axes, places})
    type.mutable_shape()->add_dim()->set_dim_value(size);
  node.set_op_type("Identity");
  node.set_input(0, input.name());
}

/// A copy in which NonZero gives the indices of all places; nothing where the
/// shape of a mask is not known, with the node that reads it in `why`.
std::optional<::onnx::ModelProto> withAllPlaces(const ::onnx::ModelProto &model,
                                                ArrayRef<std::string> masks,
                                                std::string &why) {
  ::onnx::ModelProto typed = model;
  auto infer = [&] {
    // What was inferred before of how many rows there are is not so.
    typed.mutable_graph()->clear_value_info();
    Error error = onnxlib::inferShapes(typed);
    if (error)
      why = toString(std::move(error));
    return why.empty();
  };
  foldAxes(*typed.mutable_graph());
  if (!infer())
    return std::nullopt;
  const ::onnx::ModelProto before = typed; // what `known` points into
  KnownTensors known(before.graph());
  for (::onnx::NodeProto &node : *typed.mutable_graph()->mutable_node()) {
    std::string counted = maskCountedBy(node, known, masks);
    bool selects = isOp(node, "NonZero") && is_contained(masks, node.input(0));
    if (counted.empty() && !selects)
      continue;
    const Shape *shape = known.shapeOf(selects ? node.input(0) : counted);
    std::optional<int64_t> places = placesOf(shape);
    if (!places) {
      why = describe(node) + " reads a mask whose shape is not known";
      return std::nullopt;
    }
    const auto *keepdims = findAttribute(node, "keepdims");
    if (selects)
      makeInput(*typed.mutable_graph(), node, int64_t(shape->size()), *places);
    else
      makeConstant(node, countOf(*places, !keepdims || keepdims->i()));
  }
  if (!infer())
    return std::nullopt;
  return typed;
}

/// Writes the nodes anew.
class RowWriter {
public:
  RowWriter(::onnx::GraphProto &graph, int opset, const KnownTensors &known,
            const RowTracer &tracer)
      : writer(graph, opset), known(known), tracer(tracer) {}

  void write(::onnx::NodeProto &node) {
    writer.standFor(node);
    if (isOp(node, "NonZero") && tracer.rowsOf(node.output(0)))
      giveAllPlaces(node);
    else if ((isOp(node, "ScatterND") || isOp(node, "ScatterElements")) &&
             tracer.rowsOf(node.input(1)))
      putBack(node);
    else if (node.input_size() > 0 && tracer.reducesRows(node))
      reduce(node);
    else if (!spread(node) && !shapeRows(node))
      writer.keep(node);
  }

  bool finish();

private:
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape);
  std::string transpose(const std::string &value, ArrayRef<int64_t> perm);
  std::string validOf(const std::string &mask);
  void giveAllPlaces(const ::onnx::NodeProto &node);
  bool spread(const ::onnx::NodeProto &node);
  bool shapeRows(const ::onnx::NodeProto &node);
  void putBack(const ::onnx::NodeProto &node);
  std::string selected(const std::string &rows, const Rows &of,
                       ::onnx::TensorProto otherwise);
  void reduce(const ::onnx::NodeProto &node);
  void replace(const ::onnx::NodeProto &node, const Rows &indices);
  std::string sumToData(std::string rows, const ::onnx::NodeProto &node,
                        const Rows &indices);
  std::string anyOf(const ::onnx::NodeProto &node, const Rows &indices);

  NodeWriter writer;
  const KnownTensors &known;
  const RowTracer &tracer;
  std::map<Shape, std::string> places; // indices, by the mask's shape
  StringMap<std::string> valid;        // flat, by masks
};

} // namespace

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

/// Whether each place is selected, a vector.
std::string RowWriter::validOf(const std::string &mask) {
  std::string &flags = valid[mask];
  if (!flags.empty())
    return flags;
  flags = mask;
  if (known.typeOf(mask) != ::onnx::TensorProto::BOOL) {
    flags = writer.names.newName(mask + "_flags");
    addAttribute(writer.add("Cast", {mask}, {flags}), "to",
                 int64_t(::onnx::TensorProto::BOOL));
  }
  return flags = reshape(flags, {-1});
}

/// Something else in the rows of places that are not.
std::string RowWriter::selected(const std::string &rows, const Rows &of,
                                ::onnx::TensorProto otherwise) {
  Shape shape(known.shapeOf(rows)->size(), 1);
  shape[of.axis] = -1;
  std::string other = writer.addConstant(otherwise, rows + "_other");
  std::string result = writer.names.newName(rows + "_selected");
  writer.add("Where", {reshape(validOf(of.mask), shape), rows, other},
             {result});
  return result;
}

/// The order of axes that has those of the mask in the mask's own.
static Shape orderOf(const Shape &columns, size_t rank) {
  Shape perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::sort(perm.begin(), perm.begin() + columns.size(),
            [&](int64_t a, int64_t b) { return columns[a] < columns[b]; });
  return perm;
}

/// From that order to the data's.
static Shape backFrom(const Shape &columns, size_t rank) {
  Shape back(rank);
  for (auto [i, axis] : enumerate(orderOf(columns, rank)))
    back[axis] = int64_t(i);
  return back;
}

/// Rows of the data by the places of a mask are a broadcast along its other
/// axes. False where node is none such.
bool RowWriter::spread(const ::onnx::NodeProto &node) {
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
  writer.add("Reshape", {value, to}, {node.output(0)});
  return true;
}

/// Expand and Reshape of rows to a shape that was counted. False where node is
/// none such.
bool RowWriter::shapeRows(const ::onnx::NodeProto &node) {
  if (!(isOp(node, "Expand") || isOp(node, "Reshape")) ||
      !tracer.isCount(node.input(1)))
    return false;
  std::string to = writer.addConstant(asTensor(*known.shapeOf(node.output(0))),
                                      node.output(0) + "_shape");
  writer.add(node.op_type(), {node.input(0), to}, {node.output(0)});
  return true;
}

void RowWriter::putBack(const ::onnx::NodeProto &node) {
  const Rows &indices = *tracer.rowsOf(node.input(1));
  const auto *reduction = findAttribute(node, "reduction");
  std::optional<std::string> added = tracer.addedBy(node);
  if (reduction && reduction->s() == "add")
    added = node.input(2);
  if (!added && indices.columns->size() == known.shapeOf(indices.mask)->size())
    return replace(node, indices);
  std::string rows = added.value_or(node.input(2));
  std::string sum =
      sumToData(selected(rows, {indices.mask, 0}, zeroOf(known.typeOf(rows))),
                node, indices);
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
  std::string zero = writer.addConstant(zeroOf(type), any + "_zero");
  writer.add("Greater", {sumToData(rows, node, indices), zero}, {any});
  return any;
}

/// Of a cross-entropy the labels of other places do not count; of a sum their
/// rows are zeros, by which a mean divides not.
void RowWriter::reduce(const ::onnx::NodeProto &node) {
  if (isOp(node, "SoftmaxCrossEntropyLoss")) {
    constexpr int64_t kIgnored = -100;
    const auto *ignored = findAttribute(node, "ignore_index");
    ::onnx::TensorProto label = asTensor({ignored ? ignored->i() : kIgnored});
    label.clear_dims();
    std::string labels =
        selected(node.input(1), *tracer.rowsOf(node.input(1)), label);
    ::onnx::NodeProto changed = node;
    changed.set_input(1, labels);
    if (!ignored)
      addAttribute(changed, "ignore_index", kIgnored);
    writer.keep(changed);
    return;
  }
  const Rows &rows = *tracer.rowsOf(node.input(0));
  int type = known.typeOf(node.input(0));
  std::vector<std::string> inputs(node.input().begin(), node.input().end());
  inputs[0] = selected(node.input(0), rows, zeroOf(type));
  bool mean = isOp(node, "ReduceMean");
  std::string sum =
      mean ? writer.names.newName(node.output(0) + "_sum") : node.output(0);
  *writer.add("ReduceSum", inputs, {sum}).mutable_attribute() =
      node.attribute();
  if (!mean)
    return;
  // So many elements of each row.
  const Shape &from = *known.shapeOf(node.input(0));
  int64_t each = elementsOf(from) / elementsOf(*known.shapeOf(node.output(0))) /
                 from[rows.axis];
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

std::string writeOutSelectedRows(::onnx::ModelProto &model, int opset) {
  std::vector<std::string> masks = findMasks(model.graph());
  if (masks.empty())
    return "";
  std::string why;
  std::optional<::onnx::ModelProto> typed = withAllPlaces(model, masks, why);
  if (!typed)
    return why;
  KnownTensors known(typed->graph());
  RowTracer tracer(known, masks);
  for (const ::onnx::NodeProto &node : model.graph().node())
    if (!tracer.visit(node))
      return "node " + describe(node) +
             " is not computed of each row alone, or its shape is not known";
  for (const auto &output : model.graph().output())
    if (tracer.rowsOf(output.name()) || tracer.isNumberOfRows(output.name()))
      return "the graph returns them as '" + output.name() + "'";
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes =
      model.graph().node();
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> before = nodes;
  model.mutable_graph()->clear_node();
  RowWriter writer(*model.mutable_graph(), opset, known, tracer);
  for (::onnx::NodeProto &node : nodes)
    writer.write(node);
  if (writer.finish())
    return "";
  model.mutable_graph()->mutable_node()->Swap(&before);
  return "their masks have too many places";
}

} // namespace shardonnx
