// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SelectedRows.h.

#include "SelectedRows.h"

#include "KnownSizes.h"
#include "OnnxLibrary.h"
#include "RowWriter.h"
#include "Sequences.h"

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

/// A copy in which NonZero gives the indices of all places; nothing where the
/// shape of a mask is not known, with the node that reads it in `why`.
std::optional<::onnx::ModelProto> withAllPlaces(const ::onnx::ModelProto &model,
                                                ArrayRef<std::string> all,
                                                std::string &why) {
  ::onnx::ModelProto typed = model;
  StringSet<> masks;
  masks.insert_range(all);
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
  // A mask that is made of rows has a shape when these have one.
  for (bool waiting = true; waiting;) {
    waiting = false;
    bool changed = false;
    std::string unknown;
    const ::onnx::ModelProto before = typed; // what `known` points into
    KnownTensors known(before.graph());
    for (::onnx::NodeProto &node : *typed.mutable_graph()->mutable_node()) {
      std::string counted = maskCountedBy(node, known, masks);
      bool selects = isOp(node, "NonZero") && masks.contains(node.input(0));
      if (counted.empty() && !selects)
        continue;
      const Shape *shape = known.shapeOf(selects ? node.input(0) : counted);
      std::optional<int64_t> places = placesOf(shape);
      if (!places) {
        waiting = true;
        if (unknown.empty())
          unknown = describe(node);
        continue;
      }
      changed = true;
      const auto *keepdims = findAttribute(node, "keepdims");
      if (selects)
        makeInput(*typed.mutable_graph(), node, int64_t(shape->size()),
                  *places);
      else
        makeConstant(node, countOf(*places, !keepdims || keepdims->i()));
    }
    if (waiting && !changed) {
      why = unknown + " reads a mask whose shape is not known";
      return std::nullopt;
    }
    do
      if (!infer())
        return std::nullopt;
    while (foldSizes(typed));
  }
  return typed;
}

} // namespace

std::string writeOutSelectedRows(::onnx::ModelProto &model, int opset,
                                 const ValueOrigins &origins) {
  std::vector<std::string> masks = findMasks(model.graph());
  if (masks.empty())
    return "";
  resolveSplits(*model.mutable_graph(), opset);
  std::string why;
  std::optional<::onnx::ModelProto> typed = withAllPlaces(model, masks, why);
  if (!typed)
    return why;
  KnownTensors known(typed->graph());
  SameValues same(model.graph(), known);
  RowTracer tracer(known, same, masks);
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
  UnselectedPlaces others(model.graph(), known, tracer, origins);
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
