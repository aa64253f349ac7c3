// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SelectedRows.h.

#include "SelectedRows.h"

#include "OnnxLibrary.h"
#include "RowWriter.h"

#include "llvm/Support/Error.h"

using namespace llvm;

namespace shardonnx {
namespace {

using Shape = std::vector<int64_t>;

std::string describe(const ::onnx::NodeProto &node) {
  return "'" + node.name() + "' (" + node.op_type() + ")";
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

/// The size that a graph whose shapes are inferred reads from one of them.
std::optional<int64_t> sizeIn(const KnownTensors &known, StringRef name) {
  static const StringSet<> same = {"Cast", "Identity", "Reshape", "Squeeze",
                                   "Unsqueeze"};
  int64_t place = 0;
  const ::onnx::NodeProto *node = known.producerOf(name);
  while (node && same.contains(node->op_type()))
    node = known.producerOf(node->input(0));
  if (node && isOp(*node, "Gather")) {
    const Shape *which = known.intsOf(node->input(1));
    if (!which || which->size() != 1)
      return std::nullopt;
    place = which->front();
    node = known.producerOf(node->input(0));
  }
  const Shape *shape =
      node && isOp(*node, "Shape") ? known.shapeOf(node->input(0)) : nullptr;
  if (!shape)
    return std::nullopt;
  place = normalized(place, shape->size()) + intAttribute(*node, "start", 0);
  return place >= 0 && place < int64_t(shape->size())
             ? std::optional((*shape)[place])
             : std::nullopt;
}

/// Makes numbers of the limits of ranges, which the library's inference does
/// not follow. Whether there were such.
bool foldLimits(::onnx::ModelProto &typed) {
  const ::onnx::ModelProto before = typed; // what `known` points into
  KnownTensors known(before.graph());
  bool changed = false;
  for (::onnx::NodeProto &node : *typed.mutable_graph()->mutable_node()) {
    if (!isOp(node, "Range") || known.shapeOf(node.output(0)))
      continue;
    std::optional<int64_t> limit = sizeIn(known, node.input(1));
    if (!limit)
      continue;
    ::onnx::TensorProto &number = *typed.mutable_graph()->add_initializer();
    number = countOf(*limit, /*keepsAxis=*/false);
    number.set_name(node.output(0) + "_limit");
    node.set_input(1, number.name());
    changed = true;
  }
  return changed;
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
  do
    if (!infer())
      return std::nullopt;
  while (foldLimits(typed));
  return typed;
}

} // namespace

std::string writeOutSelectedRows(::onnx::ModelProto &model, int opset,
                                 IsDetached detaches) {
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
             " is not computed of each row alone, or its shape is not known: "
             "let it read all rows, and leave the others out by torch.where() "
             "or by weights of 0";
  for (const auto &output : model.graph().output())
    if (tracer.rowsOf(output.name()) || tracer.isNumberOfRows(output.name()))
      return "the graph returns them as '" + output.name() +
             "': return all rows, or reduce them to one";
  UnselectedPlaces others(model.graph(), known, tracer, detaches);
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes =
      model.graph().node();
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> before = nodes;
  model.mutable_graph()->clear_node();
  RowWriter writer(*model.mutable_graph(), opset, known, tracer, others);
  for (::onnx::NodeProto &node : nodes)
    writer.write(node);
  if (writer.finish())
    return "";
  model.mutable_graph()->mutable_node()->Swap(&before);
  return "their masks have too many places";
}

} // namespace shardonnx
